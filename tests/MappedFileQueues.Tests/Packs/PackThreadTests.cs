using System.Collections.Concurrent;
using System.Globalization;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs;

/// <summary>Many threads on one pack, with compactions all the while.</summary>
[Trait("Category", "Slow")]
public sealed class PackThreadTests : IDisposable
{
    private const int WriterCount = 3;
    private const int KeyCount = 60;
    private const int Rounds = 1500;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Each writer's keys count upwards, so that a reader knows what it may see: never less than what it has seen before.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void PutGetDeleteCompact_AllAtOnce_NobodySeesAnOldOrWrongValue(bool mapsVolumes)
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        PackOptions options = new() { VolumeSize = 64 * 1024, CheckpointInterval = 100_000, MapVolumes = mapsVolumes };
        using PackStore pack = PackStore.Open(_temp.StorePath, options);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath, new PackReaderOptions { MapVolumes = mapsVolumes });
        int[][] written = [.. Enumerable.Range(0, WriterCount).Select(_ => new int[KeyCount])];
        ConcurrentQueue<string> wrong = [];
        int writersLeft = WriterCount;
        List<Thread> threads = [];
        for (int writer = 0; writer < WriterCount; writer++)
        {
            int number = writer;
            threads.Add(new Thread(() =>
            {
                Guard(wrong, () => Write(pack, number, written[number], new Random(seed + number)));
                Interlocked.Decrement(ref writersLeft);
            }));
        }

        bool IsOver() => Volatile.Read(ref writersLeft) == 0 || !wrong.IsEmpty;
        threads.Add(new Thread(() => Guard(wrong, () => Watch(key => pack.Get(key), written, wrong, IsOver))));
        threads.Add(new Thread(() => Guard(wrong, () => Watch(key => pack.GetOwned(key), written, wrong, IsOver))));
        threads.Add(new Thread(() => Guard(wrong, () => Watch(key => reader.Get(key), written, wrong, IsOver))));
        threads.Add(new Thread(() => Guard(wrong, () =>
        {
            while (!IsOver())
            {
                pack.Compact(0.3);
                _ = pack.Enumerate().Count();
            }
        })));
        threads.ForEach(thread => thread.Start());
        threads.ForEach(thread => thread.Join());

        Assert.True(wrong.IsEmpty, wrong.FirstOrDefault());
        Assert.Empty(pack.Verify().Damages);
        Assert.Empty(reader.Verify().Damages);
    }

    private static void Guard(ConcurrentQueue<string> wrong, Action work)
    {
        try
        {
            work();
        }
        catch (Exception error)
        {
            wrong.Enqueue(error.ToString());
        }
    }

    private static void Write(PackStore pack, int writer, int[] written, Random random)
    {
        for (int round = 1; round <= Rounds; round++)
        {
            int key = random.Next(KeyCount);
            string name = Name(writer, key);
            if (random.Next(6) == 0)
                pack.Delete(name);
            pack.Put(name, Value(writer, round), random.Next(50) == 0 ? PackDurability.Group : PackDurability.PageCache);
            Volatile.Write(ref written[key], round);
        }
    }

    /// <summary>A key may be gone for a moment; what is there is at least as new as what was written before.</summary>
    private static void Watch(Func<string, byte[]?> get, int[][] written, ConcurrentQueue<string> wrong, Func<bool> isOver)
    {
        var random = new Random(1);
        while (!isOver())
        {
            int writer = random.Next(WriterCount);
            int key = random.Next(KeyCount);
            int before = Volatile.Read(ref written[writer][key]);
            if (get(Name(writer, key)) is not { } got)
                continue;
            int round = BitConverter.ToInt32(got);
            bool isRight = round >= before && got.AsSpan().SequenceEqual(Value(writer, round));
            if (!isRight)
                wrong.Enqueue($"writer={writer}, key={key}, round={round}, before={before}, length={got.Length}");
        }
    }

    private static string Name(int writer, int key) => string.Create(CultureInfo.InvariantCulture, $"writer {writer} key {key}");

    private static byte[] Value(int writer, int round)
    {
        byte[] value = new byte[4 + (round * 7 % 900)];
        value.AsSpan().Fill((byte)writer);
        BitConverter.TryWriteBytes(value, round);
        return value;
    }
}

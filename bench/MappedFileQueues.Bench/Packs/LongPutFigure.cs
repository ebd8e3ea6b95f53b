using System.Buffers.Binary;
using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Packs;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Packs;

/// <summary>
/// A quarter more than `--bytes` in objects of 4 KiB: with the default of 1 GiB past the end of the first volume, and past four
/// checkpoints of the index (with other lengths, both as far along). Nanoseconds for each put, and the longest of them: what a
/// program waits for that puts without end. Beside bare positioned writes of as much into files of that length, one behind the
/// other.
/// </summary>
internal sealed class LongPutFigure(ChildContext context)
{
    public const string Name = "pack_put_long";
    public const string LongestName = "pack_put_long_max";

    private const int DataLength = 4096;
    private const int CheckpointShare = 4;
    private const int WarmUpCount = 50;

    private readonly byte[] _data = new byte[DataLength];
    private readonly PackGets _gets = new(Name, Key);

    public IReadOnlyList<Samples> Measure()
    {
        new Random(1).NextBytes(_data);
        WarmUp.UntilCompiled(() =>
        {
            _ = PutAll(WarmUpCount, long.MaxValue);
            _ = WriteBare(WarmUpCount, long.MaxValue);
        });
        int count = (int)(context.Bytes / 4 * 5 / DataLength);
        List<((double Each, double Longest) Raw, (double Each, double Longest) Ours)> runs = [];
        for (int i = 0; i < context.Repetitions; i++)
            runs.Add((WriteBare(count, context.Bytes), PutAll(count, context.Bytes)));
        return
        [
            new Samples(Name, "ns", [.. runs.Select(run => run.Raw.Each)], [.. runs.Select(run => run.Ours.Each)]),
            new Samples(LongestName, "us", [.. runs.Select(run => run.Raw.Longest)], [.. runs.Select(run => run.Ours.Longest)]),
        ];
    }

    private (double Each, double Longest) PutAll(int count, long volumeLength)
    {
        string path = context.Path("pack");
        PackOptions options = new();
        if (volumeLength != long.MaxValue)
        {
            options.VolumeSize = volumeLength;
            options.CheckpointInterval = volumeLength / CheckpointShare;
        }

        Ballast.Take((long)count * DataLength);
        (double Each, double Longest) times;
        using (PackStore pack = PackStore.Open(path, options))
        {
            times = Time(count, number => pack.Put(Key(number), _data));
            _ = _gets.Measure(pack, [.. Enumerable.Range(0, count)]);
        }

        Directory.Delete(path, recursive: true);
        return times;
    }

    private (double Each, double Longest) WriteBare(int count, long fileLength)
    {
        int perFile = (int)Math.Clamp(fileLength / DataLength, 1, count);
        List<string> paths = [];
        SafeFileHandle? file = null;
        Ballast.Take((long)count * DataLength);
        (double Each, double Longest) times = Time(count, number =>
        {
            if (number % perFile == 0)
            {
                file?.Dispose();
                paths.Add(context.Path($"bare-{paths.Count}"));
                file = File.OpenHandle(paths[^1], FileMode.CreateNew, FileAccess.Write);
            }

            RandomAccess.Write(file!, _data, (long)(number % perFile) * DataLength);
        });
        file?.Dispose();
        Sums.Check(Name, (ulong)paths.Sum(path => new FileInfo(path).Length), (ulong)count * DataLength);
        foreach (string path in paths)
            File.Delete(path);
        return times;
    }

    /// <summary>Nanoseconds for each, and microseconds for the longest.</summary>
    private (double Each, double Longest) Time(int count, Action<int> put)
    {
        long longest = 0;
        long start = Clock.Now;
        long last = start;
        for (int number = 0; number < count; number++)
        {
            BinaryPrimitives.WriteInt32LittleEndian(_data, number);
            put(number);
            long now = Clock.Now;
            longest = Math.Max(longest, now - last);
            last = now;
        }

        return (Clock.Nanoseconds(last - start) / count, Clock.Nanoseconds(longest) / 1e3);
    }

    private static string Key(int number) => number.ToString(CultureInfo.InvariantCulture);
}

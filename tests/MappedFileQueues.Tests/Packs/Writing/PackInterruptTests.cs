using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>`Thread.Interrupt` on threads that compact a pack or close it.</summary>
[Trait("Category", "Slow")]
public sealed class PackInterruptTests : IDisposable
{
    private const int KeyCount = 200;

    private static readonly PackOptions s_options = new() { VolumeSize = 64 * 1024, CheckpointInterval = 256 * 1024 };
    private static readonly TimeSpan s_duration = TimeSpan.FromSeconds(2);

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// An interrupted compaction stopped between two entries. Its copy and the originals then counted both, and the next
    /// compaction of the copy replaced originals that still held objects: they were lost once the index was made anew.
    /// </summary>
    [Fact]
    public void Compact_InterruptedBesidePuts_LosesNothing()
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        var random = new Random(seed);
        Dictionary<string, int> expected = [];
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_options))
        {
            bool isOver = false;
            var compacting = new Thread(() => Repeat(() => pack.Compact(0.1), ref isOver));
            compacting.Start();
            long began = Stopwatch.GetTimestamp();
            for (int round = 1; Stopwatch.GetElapsedTime(began) < s_duration; round++)
            {
                string key = random.Next(KeyCount).ToString(CultureInfo.InvariantCulture);
                byte[] value = new byte[sizeof(int) + random.Next(3000)];
                BitConverter.TryWriteBytes(value, expected[key] = random.Next(10) < 4 ? 0 : round);
                if (expected[key] == 0)
                    pack.Delete(key);
                else
                    pack.Put(key, value);
                compacting.Interrupt();
            }

            Volatile.Write(ref isOver, true);
            compacting.Join();
            Assert.Empty(pack.Verify().Damages);
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        using PackStore again = PackStore.Open(_temp.StorePath, s_options);
        Assert.Empty(again.Damages);
        Assert.All(expected, pair =>
            Assert.Equal(pair.Value, again.Get(pair.Key) is { } value ? BitConverter.ToInt32(value) : 0));
    }

    /// <summary>An interrupted Dispose left the pack open: nobody could write to it while the process lived.</summary>
    [Fact]
    public void Dispose_InterruptedWhileItWaits_ClosesThePack()
    {
        for (int round = 0; round < 10; round++)
        {
            PackStore pack = PackStore.Open(_temp.StorePath, s_options);
            pack.Put("key", new byte[50_000]);
            bool isOver = false, isPending = false;
            Exception? failure = null;
            var verifying = new Thread(() => Repeat(() => pack.Verify(), ref isOver));
            verifying.Start();
            var closing = new Thread(() =>
            {
                Thread.CurrentThread.Interrupt();
                failure = Record.Exception(pack.Dispose);
                isPending = WasInterrupted();
            });
            closing.Start();
            closing.Join();
            Volatile.Write(ref isOver, true);
            verifying.Join();
            Assert.Null(failure);
            Assert.True(isPending);
        }

        PackStore.Open(_temp.StorePath, s_options).Dispose();
    }

    /// <summary>
    /// The interrupt came when all was closed but the volumes and the lock: Dispose returned, and both stayed as long as the
    /// process lived.
    /// </summary>
    [Fact]
    public void Dispose_InterruptedBesideGetInfo_ClosesEachVolume()
    {
        const int VolumeCount = 100;
        for (int round = 0; round < 50; round++)
        {
            var table = new VolumeTable("pack", 0) { Owner = typeof(PackStore) };
            List<Volume> volumes = [];
            for (uint number = 1; number <= VolumeCount; number++)
            {
                volumes.Add(new Volume(new VolumeName(number, number, 0), new MemoryFile("volume"), default));
                table.Add(volumes[^1]);
            }

            bool isOver = false;
            var looking = new Thread(() => Repeat(() => _ = table.InOrder, ref isOver));
            looking.Start();
            Exception? failure = null;
            var closing = new Thread(() =>
            {
                Thread.CurrentThread.Interrupt();
                failure = Record.Exception(() =>
                {
                    _ = table.NeedlesLength + table.FreeCount;
                    table.Dispose();
                });
            });
            closing.Start();
            closing.Join();
            Volatile.Write(ref isOver, true);
            looking.Join();
            Assert.Null(failure);
            Assert.DoesNotContain(volumes, static volume => volume.TryAcquire());
        }
    }

    private static bool WasInterrupted()
    {
        try
        {
            Thread.Sleep(1);
            return false;
        }
        catch (ThreadInterruptedException)
        {
            return true;
        }
    }

    private static void Repeat(Action call, ref bool isOver)
    {
        while (!Volatile.Read(ref isOver))
        {
            try
            {
                call();
            }
            catch (ThreadInterruptedException)
            {
                // Again.
            }
            catch (ObjectDisposedException)
            {
                return;
            }
        }
    }
}

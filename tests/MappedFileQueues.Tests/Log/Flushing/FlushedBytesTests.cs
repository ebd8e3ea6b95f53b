using System.Globalization;
using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// What a flush takes to the disk. Linux 6.18 brings ever larger pieces of a file into the cache when it is touched in order,
/// 2 MiB in the end, and a store into a byte of a mapped piece makes all of it dirty: a message of 64 bytes wrote 2 MiB. Durable
/// appends took five times as long after the first 20 MiB of each segment, and no test and no benchmark had come that far.
/// </summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed partial class FlushedBytesTests
{
    private const int Count = 100;

    /// <summary>The page of the message, and what else is written meanwhile: a checkpoint, more room.</summary>
    private const int BytesMax = 4 * 4096;

    [Theory]
    [InlineData("Group")]
    [InlineData("Interval")]
    public void Produce_FarIntoASegment_EachFlushWritesItsPagesAlone(string level)
    {
        using CrashStore store = new(segmentSize: 64 << 20);
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask($"{store.OpenCommand} level={level}");
        agent.Ask(string.Create(CultureInfo.InvariantCulture, $"group threads=1 count=36 size={(1 << 20) - 100}"));

        AssertLittle(store, agent);
    }

    [Fact]
    public void Produce_SlowlyWithoutWaiting_LaterFlushesWriteTheirPagesAlone()
    {
        using CrashStore store = new(segmentSize: 64 << 20);
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(store.OpenCommand);
        for (int i = 0; i < 36; i++)
        {
            agent.Ask(string.Create(CultureInfo.InvariantCulture, $"append prefix=slow count=1 size={(1 << 20) - 100}"));
            // 10 MiB a second at most.
            Thread.Sleep(100);
        }

        AssertLittle(store, agent);
    }

    /// <summary>
    /// The best of ten rounds: on a busy machine the thread that makes room may stand still for longer than this test waits for
    /// it. What nobody has flushed before the first round was counted when it became dirty.
    /// </summary>
    private static void AssertLittle(CrashStore store, PeerAgent agent)
    {
        long written = long.MaxValue;
        for (int round = 0; round < 10 && written > Count * BytesMax; round++)
        {
            long before = WrittenOnceQuiet(agent);
            agent.Ask(string.Create(CultureInfo.InvariantCulture, $"group threads=1 count={Count}"));
            written = Math.Min(written, Written(agent) - before);
        }

        // A file system in memory writes nothing; anywhere else nothing would mean that this test sees nothing.
        bool isInMemory = new DriveInfo(store.Path).DriveFormat is "tmpfs" or "ramfs";
        Assert.InRange(written, isInMemory ? 0 : 4096, Count * BytesMax);
    }

    /// <summary>What the process has written, once the room ahead is ready.</summary>
    private static long WrittenOnceQuiet(PeerAgent agent)
    {
        long written = -1;
        Eventually.True(() =>
        {
            long last = written;
            written = Written(agent);
            Thread.Sleep(50);
            return last == Written(agent);
        }, "the room ahead is ready");
        return written;
    }

    /// <summary>The bytes that the process has made dirty, in whole pieces of the page cache (proc(5), write_bytes).</summary>
    private static long Written(PeerAgent agent)
    {
        string io = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{agent.Id}/io"));
        return long.Parse(WriteBytes().Match(io).Groups[1].Value, CultureInfo.InvariantCulture);
    }

    [GeneratedRegex(@"^write_bytes: (\d+)$", RegexOptions.Multiline)]
    private static partial Regex WriteBytes();
}

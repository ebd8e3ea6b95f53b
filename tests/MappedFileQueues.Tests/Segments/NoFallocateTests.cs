using System.Globalization;
using MappedFileQueues.TestPeer;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Segments;

/// <summary>
/// File systems without fallocate, ext2 here. The story: blocks were given there by looking for holes and writing zeros into
/// them, in a segment that others used already. Between the look and the write another thread or process had filled the same
/// range, raised the bound and appended; then the zeros went over its published messages, and consumers was at them for ever.
/// Now a segment gets all its blocks before anybody can see it.
/// </summary>
public sealed class NoFallocateTests : IDisposable
{
    private const int Messages = 40_000;

    /// <summary>
    /// 64 were too few once, on a busy machine: the messages take 20, and each of four threads and two preparers may be making
    /// the same next segment of 8 at once, of which the rename takes one.
    /// </summary>
    private const int DiskLengthMiB = 192;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(ProducerMode.Exclusive, 1, 1)]
    [InlineData(ProducerMode.Shared, 2, 1)]
    [InlineData(ProducerMode.Shared, 2, 2)]
    public void Produce_BesideWhoeverGivesBlocks_NothingIsZeroed(ProducerMode mode, int threads, int processes)
    {
        PlatformScope.Use(portable: false);
        using MountedFileSystem disk = MountedFileSystem.Make("ext2", _temp.Root, DiskLengthMiB);
        var options = new MappedFileQueueOptions
        {
            StorePath = disk.PathOf("store"),
            SegmentSize = 8 * 1024 * 1024,
            ProducerMode = mode,
        };
        using var queue = new MappedFileQueue(options);
        List<ChildProcess> children = [];
        try
        {
            for (int process = 1; process < processes; process++)
                children.Add(ChildProcess.StartPeer(
                    "stress-produce", options.StorePath, Text(process * threads), Text(threads), Text(Messages)));
            children.ForEach(child => child.WaitForLine("ready"));
            MappedFileProducer producer = queue.Producer;
            List<BackgroundCall> calls = [.. Enumerable.Range(0, threads).Select(
                id => BackgroundCall.Start(() => StressMessage.Produce(producer, id, Messages)))];
            children.ForEach(child => child.Input.WriteLine());
            calls.ForEach(call => call.Join());
            children.ForEach(child => child.ExpectExit());
        }
        finally
        {
            children.ForEach(child => child.Dispose());
        }

        ExpectAll(queue, threads * processes);
        queue.Flush();
    }

    /// <summary>A full disk is an exception there too, not a store into a hole.</summary>
    [Theory]
    [InlineData(65536, "exclusive")]
    [InlineData(524288, "shared")]
    public void Append_DiskFillsUp_ThrowsLosesNothingAndGoesOn(int segmentLength, string mode)
    {
        const int Enospc = 28;
        using MountedFileSystem disk = MountedFileSystem.Make("ext2", _temp.Root);
        File.WriteAllBytes(disk.PathOf("ballast"), new byte[1024 * 1024]);
        using ChildProcess child = ChildProcess.StartPeer("fill", disk.PathOf("store"), Text(segmentLength), mode, "100");

        string full = child.WaitForLine(line => line.StartsWith("FULL ", StringComparison.Ordinal));
        Assert.StartsWith($"FULL {Enospc} ", full, StringComparison.Ordinal);
        int count = int.Parse(full.Split(' ')[2], CultureInfo.InvariantCulture);
        Assert.InRange(count, 5_000, 50_000);
        child.WaitForLine(line => line.StartsWith("COMMITTED ", StringComparison.Ordinal));
        disk.Free("ballast");
        child.Input.WriteLine("freed");

        child.WaitForLine(line => line == $"DONE {Text(count + 100)}");
        child.ExpectExit();
    }

    private static void ExpectAll(MappedFileQueue queue, int producers)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer("all");
        long[] next = new long[producers];
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            Assert.True(StressMessage.TryParse(message, out long producer, out long sequence), "A message is damaged.");
            Assert.Equal(next[producer]++, sequence);
            consumer.Advance();
        }

        Assert.All(next, count => Assert.Equal(Messages, count));
    }

    private static string Text(int value) => value.ToString(CultureInfo.InvariantCulture);
}

using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>Messages that are out as spans, while their consumer moves, or after they were copied.</summary>
public sealed class MovedSpanTests
{
    /// <summary>
    /// Rewind, AdjustOffset and the seeks unmapped the segment of the message in hand, whose span is valid until the next read:
    /// reading it killed the process. So this is a child.
    /// </summary>
    [Theory]
    [InlineData("span-after-move")]
    [InlineData("span-after-move-and-dispose")]
    public void Move_SpanIsOut_StaysReadableUntilTheNextRead(string name)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        using var store = new TempStore();
        using ChildProcess child = ChildProcess.StartPeer("race", name, store.StorePath);
        child.WaitForLine("held");
        child.ExpectExit();
    }

    /// <summary>
    /// An asynchronous consumer gives copies out. A message in hand counted as a span all the same: a Dispose on another thread
    /// left the segment and the control page mapped for the life of the process.
    /// </summary>
    [Fact]
    public async Task Dispose_ElsewhereAfterConsumeAsync_NothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 });
        queue.Producer.Produce([1]);
        Assert.Equal([1], (await queue.Consumer.ConsumeAsync()).ToArray());
        MappedFileConsumer other = queue.OpenConsumer("other", QueueStart.Latest);
        Task<ReadOnlyMemory<byte>> waiting = other.ConsumeAsync().AsTask();
        queue.Producer.Produce([2]);
        Assert.Equal([2], (await waiting).ToArray());
        BackgroundCall.Start(queue.Dispose).Join();

        Assert.DoesNotContain(
            File.ReadLines("/proc/self/maps"), line => line.Contains(store.StorePath, StringComparison.Ordinal));
    }
}

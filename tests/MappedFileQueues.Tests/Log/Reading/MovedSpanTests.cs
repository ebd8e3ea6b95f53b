using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>Messages that are out as spans, while their consumer moves, or after they were copied.</summary>
public sealed class MovedSpanTests
{
    /// <summary>
    /// Rewind, AdjustOffset and the seeks unmapped the segment of the message in hand, whose span is valid until the next read:
    /// reading it killed the process. So this is a child. Other threads that took the consumer over did the same.
    /// </summary>
    [Theory]
    [InlineData("span-after-move")]
    [InlineData("span-after-move-and-dispose")]
    [InlineData("span-after-others-copies")]
    [InlineData("span-after-other-forgets")]
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

        AssertNothingMapped(store.StorePath);
    }

    /// <summary>
    /// A read that enters a segment looks for the log start, and the process may have no descriptor left for that. The segment
    /// stayed mapped for the life of the process, and its room stayed taken when it was removed.
    /// </summary>
    [Fact]
    public void Dispose_AfterAReadThatCouldNotLookForTheLogStart_NothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        string copy = Path.Combine(store.Root, "copy");
        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 }))
        {
            queue.Producer.Produce([1]);
            queue.Snapshot(copy);
        }

        using (MappedFileReader reader = MappedFileReader.Open(copy))
        {
            File.Delete(Path.Combine(copy, StoreNames.LogStart));
            Directory.CreateDirectory(Path.Combine(copy, StoreNames.LogStart));
            Assert.Throws<QueueDiskException>(() => reader.TryRead(out _));
        }

        AssertNothingMapped(copy);
    }

    /// <summary>
    /// The end of the queue leaves a message in place to the thread that reads it, until that one's next call. When that was its
    /// own Dispose, as of a `using`, or a call that was refused early, the segment stayed mapped for the life of the process.
    /// </summary>
    [Theory]
    [InlineData("Consumer.Dispose")]
    [InlineData("Member.Dispose")]
    [InlineData("Member.Flush")]
    public void NextCall_AfterTheQueuesEndElsewhere_NothingStaysMapped(string call)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 });
        queue.Producer.Produce([1]);
        MappedFileConsumer consumer = queue.Consumer;
        MappedFileGroupMember member = queue.OpenGroupMember("group");
        Assert.True(call.StartsWith('C') ? consumer.TryConsume(out _) : member.TryConsume(out _));

        BackgroundCall.Start(queue.Dispose).Join();
        switch (call)
        {
            case "Consumer.Dispose":
                consumer.Dispose();
                break;
            case "Member.Dispose":
                member.Dispose();
                break;
            default:
                Assert.Throws<ObjectDisposedException>(member.Flush);
                break;
        }

        AssertNothingMapped(store.StorePath);
    }

    /// <summary>A reader that another thread has ended leaves the message in place to its own thread in the same way.</summary>
    [Fact]
    public void Dispose_AfterTheReadersEndElsewhere_NothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        using TempStore store = new();
        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 }))
            queue.Producer.Produce([1]);
        MappedFileReader reader = MappedFileReader.Open(store.StorePath);
        Assert.True(reader.TryRead(out _));

        BackgroundCall.Start(reader.Dispose).Join();
        reader.Dispose();

        AssertNothingMapped(store.StorePath);
    }

    /// <summary>
    /// The thread that holds the message disposed the reader while another one was ending it: each left the mapping to the other,
    /// and it stayed for the life of the process.
    /// </summary>
    [Fact]
    public void Dispose_WhileTheReaderEndsElsewhere_NothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        using TempStore store = new();
        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 }))
            queue.Producer.Produce([1]);
        for (int round = 0; round < 300; round++)
        {
            MappedFileReader reader = MappedFileReader.Open(store.StorePath);
            Assert.True(reader.TryRead(out _));
            using var start = new Barrier(2);
            BackgroundCall elsewhere = BackgroundCall.Start(() =>
            {
                start.SignalAndWait();
                reader.Dispose();
            });
            start.SignalAndWait();
            Thread.SpinWait(round % 100 * 20);
            reader.Dispose();
            elsewhere.Join();
        }

        AssertNothingMapped(store.StorePath);
    }

    private static void AssertNothingMapped(string path) =>
        Assert.DoesNotContain(File.ReadLines("/proc/self/maps"), line => line.Contains(path, StringComparison.Ordinal));
}

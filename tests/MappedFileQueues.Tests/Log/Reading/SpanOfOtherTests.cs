using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>
/// A message that one thread reads in place while others use its consumer: its segment stays mapped until that thread's next
/// call, and no longer. Where it did not, the reading thread died of an access violation, and the process with it. So these tests
/// look at what is mapped, and read nothing there.
/// </summary>
public sealed class SpanOfOtherTests : IDisposable
{
    private readonly TempStore _store = new();

    public SpanOfOtherTests()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
    }

    public void Dispose() => _store.Dispose();

    /// <summary>
    /// ConsumeAsync copies a message, then notes that it is no span any longer. If a thread read the message in place in between,
    /// and the consumer ended, the note went for that thread's span: the next call of anybody unmapped it. So
    /// `misuse consumers` died now and then (in 2 of 13 runs of one build, in none of 106 of another; in half the runs with
    /// pauses at the places where the calls begin and end).
    /// </summary>
    [Fact]
    public void ConsumeAsync_MessageIsReadElsewhereAndTheConsumerEnds_SpanStays()
    {
        using MappedFileQueue queue = OpenWithMessage();
        MappedFileConsumer consumer = queue.Consumer;
        using var copied = new ManualResetEventSlim();
        using var ended = new ManualResetEventSlim();
        var copying = BackgroundCall.Start(() =>
        {
            var deserializer = new Waiting(() =>
            {
                copied.Set();
                Assert.True(ended.Wait(Eventually.DefaultDeadline));
            });
            Assert.Equal(1, consumer.ConsumeAsync(deserializer).AsTask().Result);
            Assert.Throws<ObjectDisposedException>(consumer.Advance);
        });
        Assert.True(copied.Wait(Eventually.DefaultDeadline));
        Assert.True(consumer.TryConsume(out _));
        BackgroundCall.Start(consumer.Dispose).Join();
        ended.Set();
        copying.Join();

        Assert.True(IsMapped(0));
        consumer.Dispose();
        Assert.False(IsMapped(0));
    }

    /// <summary>
    /// The end left the message to the thread that copied it, whose note that it is no span any longer then unmapped nothing.
    /// </summary>
    [Fact]
    public async Task ConsumeAsync_ConsumerEndsMeanwhile_NothingStaysMapped()
    {
        using MappedFileQueue queue = OpenWithMessage();
        MappedFileConsumer consumer = queue.Consumer;
        var deserializer = new Waiting(() => BackgroundCall.Start(consumer.Dispose).Join());
        Assert.Equal(1, await consumer.ConsumeAsync(deserializer));
        Assert.False(IsMapped(0));
    }

    /// <summary>
    /// Threads take turns. The second one's messages, copies, passed for the span of the first one, so a third thread kept their
    /// segment for the first one in place of its own.
    /// </summary>
    [Fact]
    public void Consume_HeadersAreReadElsewhere_StayOverTheTurnsOfTwoOthers()
    {
        FillWithHeaders(400);
        using MappedFileQueue<long> queue = MappedFileQueue.Create<long>(Options);
        MappedFileConsumer<long> consumer = queue.Consumer;
        Assert.True(consumer.TryConsume(out long message));
        Assert.False(consumer.HeadersInPlace.IsEmpty);
        BackgroundCall.Start(() =>
        {
            while (consumer.Offset < 4096)
            {
                consumer.Commit();
                Assert.True(consumer.TryConsume(out message));
            }
        }).Join();
        BackgroundCall.Start(() => Assert.True(consumer.TryConsume(out message))).Join();

        Assert.True(IsMapped(0));
        consumer.Commit();
        Assert.False(IsMapped(0));
        BackgroundCall.Start(consumer.Dispose).Join();
        Assert.False(IsMapped(4096));
    }

    /// <summary>
    /// Of two threads with a span each at the end, the one that called first released nothing: only the last one's next call
    /// released, and its own alone.
    /// </summary>
    [Fact]
    public void NextCalls_TwoThreadsHaveSpansAtTheEnd_NothingStaysMapped()
    {
        CallAfterTheEndOfTwoSpans(consumer =>
        {
            Assert.Throws<ObjectDisposedException>(consumer.Advance);
            Assert.True(IsMapped(0));
        });
    }

    /// <summary>
    /// A thread whose span was over passed for the holder of what another one had copied and not committed: the end by that other
    /// one left the segment mapped.
    /// </summary>
    [Fact]
    public void Dispose_HeadersWereReadElsewhereBefore_NothingStaysMapped()
    {
        FillWithHeaders(1);
        FillWithHeaders(1);
        using MappedFileQueue<long> queue = MappedFileQueue.Create<long>(Options);
        MappedFileConsumer<long> consumer = queue.Consumer;
        Assert.True(consumer.TryConsume(out long message));
        Assert.False(consumer.HeadersInPlace.IsEmpty);
        consumer.Commit();
        BackgroundCall.Start(() =>
        {
            Assert.True(consumer.TryConsume(out message));
            consumer.Dispose();
        }).Join();
        Assert.False(IsMapped(0));
    }

    /// <summary>A thread whose kept span is not the last one: its Dispose after the end released nothing.</summary>
    [Fact]
    public void Dispose_TwoThreadsHaveSpansAtTheEnd_NothingStaysMapped()
    {
        CallAfterTheEndOfTwoSpans(consumer => consumer.Dispose());
    }

    /// <summary>Two threads have a span each, and the consumer ends: this thread calls first, then the other one.</summary>
    private void CallAfterTheEndOfTwoSpans(Action<MappedFileConsumer> call)
    {
        using MappedFileQueue queue = OpenWithMessage();
        MappedFileConsumer consumer = queue.Consumer;
        Assert.True(consumer.TryConsume(out _));
        using var read = new ManualResetEventSlim();
        using var goOn = new ManualResetEventSlim();
        var other = BackgroundCall.Start(() =>
        {
            Assert.True(consumer.TryConsume(out _));
            read.Set();
            Assert.True(goOn.Wait(Eventually.DefaultDeadline));
            Assert.Throws<ObjectDisposedException>(consumer.Advance);
        });
        Assert.True(read.Wait(Eventually.DefaultDeadline));
        BackgroundCall.Start(consumer.Dispose).Join();

        call(consumer);
        goOn.Set();
        other.Join();
        Assert.False(IsMapped(0));
    }

    private MappedFileQueueOptions Options => new() { StorePath = _store.StorePath, SegmentSize = 4096 };

    /// <summary>A queue with one message, whose segment no producer has mapped.</summary>
    private MappedFileQueue OpenWithMessage()
    {
        using (var filling = new MappedFileQueue(Options))
            filling.Producer.Produce([1]);
        return new MappedFileQueue(Options);
    }

    private void FillWithHeaders(int count)
    {
        using MappedFileQueue<long> filling = MappedFileQueue.Create<long>(Options);
        for (int i = 0; i < count; i++)
            filling.Producer.Produce(i, new ProduceOptions { Headers = new MessageHeaders { Key = new byte[] { 1 } } });
    }

    private bool IsMapped(long start)
    {
        string segment = _store.PathOf(StoreNames.Segment(start));
        return File.ReadLines("/proc/self/maps").Any(line => line.Contains(segment, StringComparison.Ordinal));
    }

    /// <summary>Does something while the message is deserialized.</summary>
    private sealed class Waiting(Action meanwhile) : IMessageDeserializer<int>
    {
        public int Deserialize(ReadOnlySpan<byte> bytes)
        {
            meanwhile();
            return bytes[0];
        }
    }
}

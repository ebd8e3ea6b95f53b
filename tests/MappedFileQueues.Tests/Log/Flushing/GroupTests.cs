using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>Sharing of flushes among those who wait, and the ends of such waits.</summary>
public sealed class GroupTests
{
    private const int Threads = 64;

    [Theory]
    [InlineData(true, false)]
    [InlineData(false, false)]
    [InlineData(true, true)]
    public void Produce_ManyThreads_ShareFlushes(bool structs, bool portable)
    {
        using LevelCase test = new(structs, ProducerMode.Shared, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        ProducerUnderTest producer = queue.Producer;
        using var gate = new FlushGate(test.Services);

        // One leads and is at the gate; the others append and wait, and one flush more is enough for all of them.
        BackgroundCall leader = BackgroundCall.Start(() => producer.Produce(0));
        gate.WaitForFlush();
        long before = producer.Offset;
        List<BackgroundCall> followers =
            [.. Enumerable.Range(1, Threads - 1).Select(i => BackgroundCall.Start(() => producer.Produce(i)))];
        Eventually.True(() => queue.ReadAll().Count == Threads, "all have appended");
        gate.Open();
        leader.Join();
        followers.ForEach(call => call.Join());

        Assert.Equal(2, test.Services.SegmentFlushes);
        Assert.Equal(producer.Offset, producer.ConfirmedOffset);
        Assert.True(producer.Offset > before);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Produce_ManyThreadsAtFullSpeed_ConfirmsEachBeforeItReturns(bool portable)
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        ProducerUnderTest producer = queue.Producer;
        const int each = 20;
        int late = 0;
        List<BackgroundCall> calls = [.. Enumerable.Range(0, Threads).Select(thread => BackgroundCall.Start(() =>
        {
            for (int i = 0; i < each; i++)
            {
                if (producer.Produce(i, thread) >= producer.ConfirmedOffset)
                    Interlocked.Increment(ref late);
            }
        }))];
        calls.ForEach(call => call.Join());

        Assert.Equal(0, late);
        // How many share one is up to the scheduler: 695 flushes for 1,280 messages were seen on a busy machine.
        Assert.True(test.Services.SegmentFlushes < Threads * each, $"{test.Services.SegmentFlushes} flushes");
        Assert.Equal(Threads * each, queue.ReadAll().Count);
    }

    [Fact]
    public void Produce_TwoQueuesOnOnePath_ShareFlushes()
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        using QueueUnderTest left = test.Open(DurabilityLevel.Group);
        using QueueUnderTest right = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);

        BackgroundCall leader = BackgroundCall.Start(() => left.Producer.Produce(0));
        gate.WaitForFlush();
        List<BackgroundCall> followers =
            [.. Enumerable.Range(1, 8).Select(i => BackgroundCall.Start(() => right.Producer.Produce(i)))];
        Eventually.True(() => right.ReadAll().Count == 9, "all have appended");
        gate.Open();
        leader.Join();
        followers.ForEach(call => call.Join());

        Assert.Equal(2, test.Services.SegmentFlushes);
        Assert.Equal(left.Producer.ConfirmedOffset, right.Producer.ConfirmedOffset);
    }

    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Shared, true)]
    public void Flush_Fails_EveryoneWhoWaitsIsTold(ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs: true, mode, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using QueueUnderTest other = test.Open(DurabilityLevel.Group);
        ProducerUnderTest producer = queue.Producer;
        _ = other.Producer;
        using var gate = new FlushGate(test.Services)
        {
            Error = () => new QueueDiskException("by the test", DiskErrors.EIO, "-"),
        };
        long confirmed = producer.ConfirmedOffset;

        BackgroundCall leader = BackgroundCall.Start(() => producer.Produce(0));
        gate.WaitForFlush();
        List<BackgroundCall> followers =
        [
            .. Enumerable.Range(1, 20).Select(i => BackgroundCall.Start(() => producer.Produce(i))),
            .. Enumerable.Range(21, 5).Select(i => BackgroundCall.Start(() => other.Producer.Produce(i))),
        ];
        ValueTask<long> pending = producer.ProduceAsync(99);
        Eventually.True(() => queue.ReadAll().Count == 27, "all have appended");
        gate.Open();

        Assert.IsType<QueueDiskException>(leader.JoinSilently());
        Assert.All(followers, call => Assert.IsType<QueuePoisonedException>(call.JoinSilently()));
        Assert.Throws<QueuePoisonedException>(() => pending.AsTask().GetAwaiter().GetResult());
        Assert.Throws<QueuePoisonedException>(() => producer.Produce(1));
        Assert.Throws<QueuePoisonedException>(() => other.Producer.Produce(1));
        Assert.Throws<QueuePoisonedException>(() => other.Flush());
        Assert.Equal(confirmed, producer.ConfirmedOffset);
        Assert.True(File.Exists(test.Store.PathOf("poison")));
    }

    [Fact]
    public void Interval_BackgroundFlushFails_TheQueueIsPoisoned()
    {
        using LevelCase test = new(structs: true, ProducerMode.Exclusive, portable: false);
        using QueueUnderTest queue = test.Open(
            DurabilityLevel.Interval, options => options.FlushInterval = TimeSpan.FromMilliseconds(20));
        ProducerUnderTest producer = queue.Producer;
        test.Services.OnSegmentFlush = _ => throw new QueueDiskException("by the test", DiskErrors.EIO, "-");
        producer.Produce(1);

        Eventually.True(() => queue.GetInfo().IsPoisoned, "the background flush poisons the queue");

        Assert.Throws<QueuePoisonedException>(() => producer.Produce(2));
        Assert.Equal(0, producer.ConfirmedOffset);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Produce_TimeIsUp_TheMessageStaysAppended(bool portable)
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);
        BackgroundCall leader = BackgroundCall.Start(() => queue.Producer.Produce(0));
        gate.WaitForFlush();

        TimeoutException error = Assert.Throws<TimeoutException>(() =>
            queue.Producer.Produce(1, new ProduceOptions { Timeout = TimeSpan.FromMilliseconds(30) }));
        Assert.Throws<TimeoutException>(() => queue.Producer.Produce(2, new ProduceOptions { Timeout = TimeSpan.Zero }));

        Assert.Contains("stay appended", error.Message, StringComparison.Ordinal);
        Assert.Equal([0, 1, 2], queue.ReadAll());
        gate.Open();
        leader.Join();
        Assert.True(queue.Producer.Produce(3, new ProduceOptions { Timeout = Eventually.DefaultDeadline })
            < queue.Producer.ConfirmedOffset);
    }

    [Fact]
    public void Produce_CancelledWhileItWaits_TheMessageStaysAppended()
    {
        using LevelCase test = new(structs: false, ProducerMode.Shared, portable: false);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);
        using var source = new CancellationTokenSource();
        BackgroundCall leader = BackgroundCall.Start(() => queue.Producer.Produce(0));
        gate.WaitForFlush();
        BackgroundCall follower = BackgroundCall.Start(() =>
            queue.Producer.Produce(1, new ProduceOptions { CancellationToken = source.Token }));
        Eventually.True(() => queue.ReadAll().Count == 2, "the follower has appended");

        source.Cancel();

        Exception? error = follower.JoinSilently();
        Assert.IsType<OperationCanceledException>(error);
        Assert.Contains("stay appended", error.Message, StringComparison.Ordinal);
        Assert.Throws<OperationCanceledException>(() =>
            queue.Producer.Produce(2, new ProduceOptions { CancellationToken = source.Token }));
        Assert.Equal([0, 1], queue.ReadAll());
        gate.Open();
        leader.Join();
    }

    [Fact]
    public void Produce_OwnClaimIsOpen_IsRefusedBeforeAnythingIsWritten()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            Durability = DurabilityLevel.Group,
        });
        using MappedFileProducer other = queue.OpenProducer();
        using MessageClaim claim = queue.Producer.DangerousClaim(8);
        Assert.Throws<InvalidOperationException>(() => other.Produce("x"u8));
        claim.Span.Clear();
        claim.Publish(8);
        Assert.Equal(queue.ConfirmedOffset, queue.Producer.Offset);
    }

    [Fact]
    public async Task Dispose_DuringAGroupWait_ComesToAnEnd()
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);
        ProducerUnderTest producer = queue.Producer;
        BackgroundCall leader = BackgroundCall.Start(() => producer.Produce(0));
        gate.WaitForFlush();
        BackgroundCall follower = BackgroundCall.Start(() => producer.Produce(1));
        Eventually.True(() => queue.ReadAll().Count == 2, "the follower has appended");
        ValueTask<long> pending = producer.ProduceAsync(2);
        BackgroundCall dispose = BackgroundCall.Start(queue.Dispose);
        Eventually.True(() => dispose.IsWaiting || dispose.HasEnded, "Dispose waits for the flush");

        gate.Open();

        // Calls under way are drained: a flush that ends by itself confirms them.
        dispose.Join();
        leader.Join();
        // One that has appended and does not wait yet is told that the queue is disposed.
        Assert.True(follower.JoinSilently() is null or ObjectDisposedException);
        Assert.Equal(2 * FrameHeader.FrameLength(Unsafe.SizeOf<Tick>()), await pending);
    }
}

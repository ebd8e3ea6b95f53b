using System.Diagnostics;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void TryConsume_NothingThere_FalseAtOnceOrAfterTheTimeout(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.False(consumer.TryConsume(out _));
        foreach (double milliseconds in new[] { 0.02, 2, 30 })
        {
            TimeSpan timeout = TimeSpan.FromMilliseconds(milliseconds);
            // The least of several: the machine may be busy with something else in any one of them, and for seconds.
            TimeSpan limit = timeout + TimeSpan.FromMilliseconds(40);
            TimeSpan shortest = TimeSpan.MaxValue;
            for (int round = 0; round < 5 || (shortest >= limit && round < 200); round++)
            {
                long began = Stopwatch.GetTimestamp();
                Assert.False(consumer.TryConsume(out _, timeout));
                TimeSpan took = Stopwatch.GetElapsedTime(began);
                Assert.True(took >= timeout, $"It took {took} instead of {timeout}.");
                shortest = took < shortest ? took : shortest;
            }

            Assert.True(shortest < limit, $"It took {shortest} instead of {timeout}.");
        }

        pair.Producer.Produce(0);
        // Also where it would not wait.
        Assert.Throws<ArgumentOutOfRangeException>(() => consumer.TryConsume(out _, TimeSpan.FromMilliseconds(-2)));
        Assert.True(consumer.TryConsume(out long number, TimeSpan.Zero));
        Assert.Equal(0, number);
    }

    [Theory, MemberData(nameof(Places))]
    public void Consume_Waiting_WokenByAMessage(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options => options.ConsumerRetryInterval = Timeout.InfiniteTimeSpan);
        ConsumerUnderTest consumer = pair.Consumer;
        ProducerUnderTest producer = pair.Producer;
        for (int round = 0; round < 5; round++)
        {
            long found = -1;
            BackgroundCall waiting = BackgroundCall.Start(() =>
            {
                found = consumer.Consume();
                consumer.Commit();
            });
            producer.Produce(round);
            waiting.Join();
            Assert.Equal(round, found);
        }

        BackgroundCall timed = BackgroundCall.Start(() => Assert.True(consumer.TryConsume(out _, TimeSpan.FromSeconds(30))));
        producer.ProduceBatch(5, 6, 7);
        timed.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public void Consume_CancelledWhileWaiting_ThrowsAndGoesOnAfterwards(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        using var source = new CancellationTokenSource();
        BackgroundCall waiting = BackgroundCall.Start(() => consumer.Consume(source.Token));
        Eventually.True(() => pair.HasWaiter, "the consumer goes to sleep");
        source.Cancel();

        var error = Assert.IsAssignableFrom<OperationCanceledException>(waiting.JoinSilently());
        Assert.Equal(source.Token, error.CancellationToken);

        pair.Producer.Produce(0);
        Assert.Equal(0, consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeAsync_MessagesComeLater_AllInOrder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        ProducerUnderTest producer = pair.Producer;
        for (int number = 0; number < 40; number++)
        {
            ValueTask<long> pending = consumer.ConsumeAsync(Deadline);
            Assert.False(pending.IsCompleted);
            producer.Produce(number);
            Assert.Equal(number, await pending);
            Assert.Equal(number, await consumer.ConsumeAsync(Deadline));
            consumer.Commit();
        }
    }

    [Theory, MemberData(nameof(Places))]
    public async Task WaitToConsumeAsync_ThenTryConsume_AllInOrder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        ProducerUnderTest producer = pair.Producer;
        BackgroundCall writing = BackgroundCall.Start(() => ProduceMany(producer, Many));
        for (int number = 0; number < Many;)
        {
            Assert.True(await consumer.WaitToConsumeAsync(Deadline));
            while (consumer.TryConsume(out long found))
            {
                Assert.Equal(number++, found);
                consumer.Commit();
            }
        }

        writing.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public async Task WaitToConsumeAsync_ThenCommit_TakesOnlyWhatWasRead(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        List<long> offsets = ProduceMany(pair.Producer, 3);
        Assert.Equal([0], consumer.ConsumeBatch(1));
        Assert.True(await consumer.WaitToConsumeAsync(Deadline));
        consumer.Commit();
        Assert.Equal(offsets[1], consumer.CommittedOffset);

        Assert.Equal(1, consumer.Consume());
        Assert.True(await consumer.WaitToConsumeAsync(Deadline));
        consumer.Commit();
        Assert.Equal(offsets[2], consumer.CommittedOffset);
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ReadAllAsync_CommitsAnItemWhenTheNextIsAskedFor(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        List<long> offsets = ProduceMany(pair.Producer, 5);
        long expected = 0;
        await foreach (long number in consumer.ReadAllAsync(Deadline))
        {
            Assert.Equal(expected, number);
            Assert.Equal(offsets[(int)expected], consumer.CommittedOffset);
            if (++expected == 5)
                break;
        }

        Assert.Equal(offsets[4], consumer.CommittedOffset);
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeAsync_Cancelled_ThrowsAndGoesOnAfterwards(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        using var source = new CancellationTokenSource();
        Task<long> pending = consumer.ConsumeAsync(source.Token).AsTask();
        Task<bool> done = Task.FromResult(false);
        source.Cancel();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => pending);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => await consumer.WaitToConsumeAsync(source.Token));
        await Assert.ThrowsAnyAsync<OperationCanceledException>(async () =>
        {
            await foreach (long number in consumer.ReadAllAsync(source.Token))
                Assert.Fail($"There is no message: number={number}, done={done}");
        });
        pair.Producer.Produce(0);
        Assert.Equal(0, await consumer.ConsumeAsync(Deadline));
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeAsync_SecondCallWhileOneWaits_InvalidOperation(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Task<long> pending = consumer.ConsumeAsync(Deadline).AsTask();

        await Assert.ThrowsAsync<InvalidOperationException>(async () => await consumer.ConsumeAsync(Deadline));
        await Assert.ThrowsAsync<InvalidOperationException>(async () => await consumer.WaitToConsumeAsync(Deadline));
        Assert.Throws<InvalidOperationException>(() => consumer.TryConsume(out _));
        Assert.Throws<InvalidOperationException>(() => consumer.Commit());
        Assert.Throws<InvalidOperationException>(() => consumer.Rewind());
        pair.Producer.Produce(0);

        Assert.Equal(0, await pending);
        consumer.Commit();
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeAsync_Continuation_NotOnTheWaitingThread(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        using ConsumerUnderTest first = pair.Right.OpenConsumer("first");
        using ConsumerUnderTest second = pair.Right.OpenConsumer("second");
        Task<long> firstPending = first.ConsumeAsync(Deadline).AsTask();
        Task<long> secondPending = second.ConsumeAsync(Deadline).AsTask();
        using var blocked = new ManualResetEventSlim();
        // A continuation that blocks must not stop the other consumer of this queue.
        Task blocking = firstPending.ContinueWith(
            _ => blocked.Wait(Eventually.DefaultDeadline), CancellationToken.None,
            TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        pair.Producer.Produce(0);

        Assert.Equal(0, await secondPending);
        blocked.Set();
        await blocking;
    }
}

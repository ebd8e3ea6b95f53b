namespace MappedFileQueues.Tests.Contract;

/// <summary>Batches and channels that wait without blocking a thread.</summary>
public abstract partial class QueueContract
{
    /// <summary>Longer than any test takes: such a wait ends by messages alone.</summary>
    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(10);

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeBatchAsync_MessagesAreThere_TakesThemAndCommitsThemAll(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        List<long> offsets = ProduceMany(pair.Producer, Many);
        List<long> taken = [];
        while (taken.Count < Many)
        {
            List<long> batch = await consumer.ConsumeBatchAsync(7, cancellationToken: Deadline);
            Assert.InRange(batch.Count, 1, 7);
            taken.AddRange(batch);
            Assert.Equal(offsets[taken.Count - 1], consumer.MessageOffset);
            consumer.Commit();
            Assert.True(consumer.CommittedOffset > offsets[taken.Count - 1]);
        }

        Assert.Equal(Enumerable.Range(0, Many).Select(i => (long)i), taken);
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeBatchAsync_MessagesComeOneByOne_WaitsUntilItIsFull(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;

        // The longest time there is was over at once.
        foreach (TimeSpan maxWait in new[] { s_long, TimeSpan.MaxValue, Timeout.InfiniteTimeSpan })
        {
            Task<List<long>> pending = consumer.ConsumeBatchAsync(3, maxWait, Deadline).AsTask();
            for (int number = 0; number < 3; number++)
            {
                Assert.False(pending.IsCompleted);
                pair.Producer.Produce(number);
            }

            Assert.Equal([0, 1, 2], await pending);
        }
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeBatchAsync_TimeIsUp_GivesWhatCame(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Task<List<long>> pending = consumer.ConsumeBatchAsync(100, TimeSpan.FromMilliseconds(30), Deadline).AsTask();
        pair.Producer.Produce(0);
        pair.Producer.Produce(1);
        List<long> taken = await pending;
        // On a busy machine the second one may come too late.
        if (taken.Count == 1)
            taken.AddRange(await consumer.ConsumeBatchAsync(1, cancellationToken: Deadline));
        Assert.Equal([0, 1], taken);
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ConsumeBatchAsync_Cancelled_TakesNothing(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        ProduceMany(pair.Producer, 3);
        Assert.Equal([0], await consumer.ConsumeBatchAsync(1, cancellationToken: Deadline));
        using var source = new CancellationTokenSource();
        Task<List<long>> pending = consumer.ConsumeBatchAsync(100, s_long, source.Token).AsTask();
        source.Cancel();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => pending);

        // Not taken, and not committed either.
        consumer.Commit();
        Assert.Equal([1, 2], await consumer.ConsumeBatchAsync(2, s_long, Deadline));
    }

    [Theory, MemberData(nameof(Places))]
    public async Task AsChannelReader_CommitsAnItemWhenTheNextIsAskedFor_EndsWithTheConsumer(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        List<long> offsets = ProduceMany(pair.Producer, 5);
        long expected = 0;
        await foreach (long number in consumer.ReadChannelAsync(Deadline))
        {
            Assert.Equal(expected, number);
            Assert.Equal(offsets[(int)expected], consumer.CommittedOffset);
            if (++expected == 5)
                _ = Task.Run(consumer.Dispose, CancellationToken.None);
        }

        Assert.Equal(5, expected);
    }
}

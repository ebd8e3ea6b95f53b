namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    /// <summary>Some messages' frames, and no more.</summary>
    private const long LimitOfTests = 1000;

    /// <summary>The rest of a segment does not count when it follows the cursor: it is shorter than the longest frame.</summary>
    private const long AheadMax = LimitOfTests + 112;

    [Theory, MemberData(nameof(Places))]
    public void TryProduce_ConsumerIsBehind_FalseAtTheLimitUntilItCommits(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        ProducerUnderTest producer = pair.Producer;
        int produced = 0;
        for (int round = 0; round < 20; round++)
        {
            int before = produced;
            while (producer.TryProduce(produced))
                produced++;
            Assert.True(produced > before, "A committed message makes room.");
            Assert.InRange(producer.Offset - consumer.CommittedOffset, 1, AheadMax);
            Assert.False(producer.TryProduce(produced));
            Assert.Equal(Numbers(before, produced - before), consumer.Take(produced - before));
        }
    }

    [Theory, MemberData(nameof(Places))]
    public void TryProduce_NoConsumer_HasNoLimitUntilThereIsOne(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        ProduceMany(pair.Producer, Many);

        using ConsumerUnderTest late = pair.Right.OpenConsumer("late");
        // A lane looks at the consumers once in 256 KiB, or at the end of its segment.
        int more = 0;
        while (pair.Producer.TryProduce(Many + more))
            more++;

        Assert.InRange(pair.Producer.Offset, 0, (256 * 1024) + (Many * 128));
        Assert.Equal(Numbers(0, Many + more), late.Take(Many + more));
        Assert.True(pair.Producer.TryProduce(0));
    }

    [Theory, MemberData(nameof(Places))]
    public void Produce_Full_WaitsUntilTheSlowestCommits(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        using ConsumerUnderTest fast = pair.Right.OpenConsumer("fast");
        using ConsumerUnderTest slow = pair.Left.OpenConsumer("slow");
        int taken = 0;
        int produced = Fill(pair.Producer);
        for (int round = 0; round < 5; round++)
        {
            BackgroundCall waiting = StartWaiting(pair, () => pair.Producer.Produce(produced));
            Assert.Equal(Numbers(taken, produced - taken), fast.Take(produced - taken));
            Assert.False(waiting.HasEnded);
            Assert.Equal(Numbers(taken, produced - taken), slow.Take(produced - taken));
            waiting.Join();
            taken = produced;
            produced = Fill(pair.Producer, produced + 1);
        }
    }

    [Theory, MemberData(nameof(Places))]
    public void Produce_Full_DeleteAndResetAndDropEndTheWait(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        Close(pair.Right.OpenConsumer("deleted"));
        int produced = Fill(pair.Producer);
        BackgroundCall waiting = StartWaiting(pair, () => pair.Producer.Produce(produced));
        Assert.True(pair.Right.DeleteConsumer("deleted"));
        waiting.Join();

        Close(pair.Right.OpenConsumer("reset"));
        produced = Fill(pair.Producer, produced + 1);
        waiting = StartWaiting(pair, () => pair.Producer.Produce(produced));
        pair.Right.ResetConsumer("reset", QueueStart.Latest);
        waiting.Join();

        if (segments != Segments.Tiny)
            return;
        produced = Fill(pair.Producer, produced + 1);
        pair.Reopen(options => options.MaxUnconsumedBytes = 5 * 4096);
        produced = Fill(pair.Producer, produced);
        waiting = StartWaiting(pair, () => pair.Producer.Produce(produced));
        pair.Right.SetRetention(new RetentionOptions { MaxBytes = 1, KeepUnconsumed = false });
        waiting.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public void Produce_Full_TimeoutCancellationAndThrowAppendNothing(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        Close(pair.Right.OpenConsumer("closed"));
        int produced = Fill(pair.Producer);
        long tail = pair.Producer.Offset;
        foreach (TimeSpan timeout in new[] { TimeSpan.Zero, TimeSpan.FromMilliseconds(20) })
            Assert.Throws<TimeoutException>(() => pair.Producer.Produce(0, new ProduceOptions { Timeout = timeout }));

        using var source = new CancellationTokenSource();
        BackgroundCall waiting = StartWaiting(
            pair, () => pair.Producer.Produce(0, new ProduceOptions { CancellationToken = source.Token }));
        source.Cancel();
        var error = Assert.IsAssignableFrom<OperationCanceledException>(waiting.JoinSilently());
        Assert.Equal(source.Token, error.CancellationToken);
        Assert.Equal(tail, pair.Producer.Offset);

        pair.Reopen(options => options.FullMode = FullMode.Throw);
        string message = Assert.Throws<QueueFullException>(() => pair.Producer.Produce(0)).Message;
        Assert.Contains("slowest=0", message, StringComparison.Ordinal);
        Assert.Throws<QueueFullException>(() => pair.Producer.ProduceBatch(0, 1));
        Assert.Throws<QueueFullException>(() => { _ = pair.Producer.ProduceAsync(0); });
        Assert.False(pair.Producer.TryProduce(0));
        Assert.Equal(tail, pair.Producer.Offset);
        Assert.Equal(Numbers(0, produced), pair.Right.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ProduceAsync_Full_ManyWaitOnOneThreadAndKeepTheirOrder(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        int produced = Fill(pair.Producer);
        const int count = 1000;
        int threads = ThreadCount;
        List<Task<long>> appends = [];
        for (int i = 0; i < count; i++)
            appends.Add(pair.Producer.ProduceAsync(produced + i).AsTask());
        Assert.All(appends, append => Assert.False(append.IsCompleted));
        // Other tests of this process start some, too.
        Assert.InRange(ThreadCount - threads, int.MinValue, count / 2);
        using var source = new CancellationTokenSource();
        Task<long> cancelled = pair.Producer.ProduceAsync(0, source.Token).AsTask();
        appends.Add(pair.Producer.ProduceAsync(produced + count).AsTask());
        source.Cancel();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled);

        List<long> read = [];
        for (int i = 0; i < produced + count + 1; i++)
        {
            read.Add(consumer.Consume(Deadline));
            consumer.Commit();
        }

        Assert.Equal(Numbers(0, produced + count + 1), read);
        long[] offsets = await Task.WhenAll(appends).WaitAsync(Deadline);
        Assert.Equal(offsets.Order(), offsets);
        Assert.Equal(offsets.Length, offsets.Distinct().Count());
    }

    [Theory, MemberData(nameof(Places))]
    public void ProduceBatch_DoesNotFitTheLimit_WaitsAsAWhole(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        pair.Producer.Produce(0);
        BackgroundCall waiting = StartWaiting(pair, () => pair.Producer.ProduceBatch(Numbers(1, 40)));

        Assert.Equal([0], consumer.Take(1));
        waiting.Join();
        // Longer than the limit, and everything before it was consumed.
        Assert.True(pair.Producer.Offset - consumer.CommittedOffset > LimitOfTests);
        Assert.False(pair.Producer.TryProduce(41));
        Assert.Equal(Numbers(1, 40), consumer.Take(40));
        Assert.True(pair.Producer.TryProduce(41));
    }

    [Theory, MemberData(nameof(Places))]
    public void Produce_EachMessageIsLongerThanTheLimit_OneAtATime(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options => options.MaxUnconsumedBytes = 1);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        for (int i = 0; i < Many; i++)
        {
            pair.Producer.Produce(i);
            Assert.False(pair.Producer.TryProduce(i + 1));
            Assert.Equal(i, consumer.Consume());
            consumer.Commit();
        }
    }

    /// <summary>
    /// The consumer often makes room between the look that found none and the first look of the spin. A spin that waited for one
    /// more step of the cursor waited for ever then.
    /// </summary>
    [Theory, MemberData(nameof(Places))]
    public void Produce_SpinsWithoutEnd_NoRoomIsOverlooked(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options =>
        {
            options.MaxUnconsumedBytes = 1;
            options.ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan;
        });
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        const int count = 200;
        BackgroundCall producing = BackgroundCall.Start(() => ProduceMany(pair.Producer, count));
        for (int i = 0; i < count; i++)
        {
            Assert.Equal(i, consumer.Consume(Deadline));
            consumer.Commit();
        }

        producing.Join();
        Close(pair.Right.OpenConsumer("closed"));
        Fill(pair.Producer);
        Assert.Throws<TimeoutException>(
            () => pair.Producer.Produce(0, new ProduceOptions { Timeout = TimeSpan.FromMilliseconds(20) }));
    }

    [Theory, MemberData(nameof(Places))]
    public async Task Dispose_ProducersWait_EndsThem(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        Close(pair.Right.OpenConsumer("closed"));
        ProducerUnderTest producer = pair.Left.OpenProducer();
        int produced = Fill(producer);
        // First: two threads never call an Exclusive producer at once here.
        Task<long> pending = producer.ProduceAsync(0).AsTask();
        BackgroundCall waiting = StartWaiting(pair, () => producer.Produce(0));
        producer.Dispose();
        Assert.IsType<ObjectDisposedException>(waiting.JoinSilently());
        await Assert.ThrowsAsync<ObjectDisposedException>(() => pending);

        // The limit holds for a new producer too, and the end of the queue ends its waits.
        pending = pair.Producer.ProduceAsync(0).AsTask();
        waiting = StartWaiting(pair, () => pair.Producer.Produce(0));
        pair.Left.Flush();
        Assert.Equal(Numbers(0, produced), pair.Right.ReadAll());
        pair.Left.Dispose();
        Assert.IsType<ObjectDisposedException>(waiting.JoinSilently());
        await Assert.ThrowsAsync<ObjectDisposedException>(() => pending);
    }

    [Theory, MemberData(nameof(Places))]
    public async Task Produce_Full_AFailedFlushEndsTheWait(Segments segments, bool two)
    {
        FaultyDisk? disk = null;
        using QueuePair pair = Open(segments, two, options =>
        {
            options.MaxUnconsumedBytes = LimitOfTests;
            NoInterval(options);
            disk = new FaultyDisk();
        });
        Close(pair.Right.OpenConsumer("closed"));
        Fill(pair.Producer);
        Task<long> pending = pair.Producer.ProduceAsync(0).AsTask();
        BackgroundCall waiting = StartWaiting(pair, () => pair.Producer.Produce(0));
        disk!.FailNextSync("commitlog/");

        Assert.ThrowsAny<MappedFileQueueException>(() => pair.Left.Flush());

        Assert.IsType<QueuePoisonedException>(waiting.JoinSilently());
        await Assert.ThrowsAsync<QueuePoisonedException>(() => pending);
    }

    [Theory, MemberData(nameof(Places))]
    public void Produce_TwoThreadsBesideAConsumer_NeverBeyondTheLimit(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        // An Exclusive producer has one caller.
        int callers = _mode == ProducerMode.Exclusive ? 1 : 2;
        const int each = 2000;
        BackgroundCall[] calls = [.. Enumerable.Range(0, callers).Select(caller => BackgroundCall.Start(() =>
        {
            for (int i = 0; i < each; i++)
                pair.Producer.Produce(i, caller);
        }))];
        long[] next = new long[callers];
        for (int i = 0; i < callers * each; i++)
        {
            (int caller, long number) = consumer.ConsumeFrom();
            Assert.Equal(next[caller]++, number);
            Assert.True(consumer.MessageOffset - consumer.CommittedOffset <= AheadMax);
            if (i % 3 == 0)
                consumer.Commit();
            else
                consumer.Advance();
        }

        foreach (BackgroundCall call in calls)
            call.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public void Open_WithRetention_ItBecomesTheStores(Segments segments, bool two)
    {
        var policy = new RetentionOptions { MaxBytes = 1 << 20, KeepUnconsumed = false };
        using QueuePair pair = Open(segments, two, options => options.Retention = policy);
        Assert.Equal(policy, pair.Right.GetInfo().Retention);
        pair.Reopen(options => options.Retention = null);
        Assert.Equal(policy, pair.Right.GetInfo().Retention);
        pair.Reopen(options => options.Retention = policy with { MaxBytes = 2 << 20 });
        Assert.Equal(2 << 20, pair.Right.GetInfo().Retention?.MaxBytes);
    }

    [Theory, MemberData(nameof(Places))]
    public void Open_OptionsOutOfRange_Refused(Segments segments, bool two)
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => Open(segments, two, options => options.MaxUnconsumedBytes = -1));
        Assert.Throws<ArgumentOutOfRangeException>(() => Open(segments, two, options => options.FullMode = (FullMode)2));
        Assert.ThrowsAny<ArgumentException>(() => Open(
            segments, two, options => options.Retention = new RetentionOptions { MaxBytes = -1 }));
    }

    private static int ThreadCount => System.Diagnostics.Process.GetCurrentProcess().Threads.Count;

    private QueuePair OpenLimited(Segments segments, bool two) => Open(segments, two, options =>
    {
        options.MaxUnconsumedBytes = LimitOfTests;
        options.ConsumerSpinWaitDuration = TimeSpan.Zero;
    });

    /// <summary>Produces up to the limit; returns the next number.</summary>
    private static int Fill(ProducerUnderTest producer, int from = 0)
    {
        while (producer.TryProduce(from))
            from++;
        return from;
    }

    private static void Close(ConsumerUnderTest consumer) => consumer.Dispose();

    /// <summary>A call that has said that it waits for consumers.</summary>
    private static BackgroundCall StartWaiting(QueuePair pair, Action call)
    {
        BackgroundCall waiting = BackgroundCall.Start(call);
        Eventually.True(() => pair.HasRoomWaiter || waiting.HasEnded, "the producer waits");
        return waiting;
    }
}

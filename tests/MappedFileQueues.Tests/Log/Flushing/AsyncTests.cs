using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>Asynchronous appends and flushes: when they complete, on what thread, and how they end early.</summary>
[Trait("Category", "Slow")]
public sealed class AsyncTests
{
    public static TheoryData<bool, ProducerMode, bool> Cases => LevelCase.All;

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task ProduceAsync_EachLevel_CompletesAsTheLevelSays(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        foreach (DurabilityLevel level in Enum.GetValues<DurabilityLevel>())
        {
            using QueueUnderTest queue = test.Open(level);
            for (int i = 0; i < 3; i++)
            {
                long expected = queue.Producer.Offset;
                ValueTask<long> call = queue.Producer.ProduceAsync(i);
                Assert.True(level == DurabilityLevel.Group || call.IsCompletedSuccessfully);
                Assert.Equal(expected, await call);
                Assert.True(level != DurabilityLevel.Group || queue.Producer.ConfirmedOffset > expected);
            }

            Assert.Equal([0, 1, 2], queue.Consumer.Take(3));
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task ProduceAsync_Pipelined_SharesFlushesAndNeverRunsOnTheFlusher(bool portable)
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);
        ValueTask<long> first = queue.Producer.ProduceAsync(0);
        gate.WaitForFlush();
        Task<string?>[] calls = [.. Enumerable.Range(1, 500).Select(i => NameOfContinuation(queue.Producer.ProduceAsync(i)))];
        Assert.DoesNotContain(calls, call => call.IsCompleted);
        Assert.False(first.IsCompleted);
        gate.Open();

        await first;
        string?[] names = await Task.WhenAll(calls);

        Assert.Equal(2, test.Services.SegmentFlushes);
        Assert.DoesNotContain(names, name => name?.StartsWith("MappedFileQueues", StringComparison.Ordinal) == true);
        Assert.Equal(queue.Producer.Offset, queue.Producer.ConfirmedOffset);
    }

    /// <summary>
    /// A call that is awaited too early or twice throws, and nobody else's call is spoiled by it: the object after it was handed
    /// out again while it still waited.
    /// </summary>
    [Fact]
    public async Task ProduceAsync_ResultAskedTooEarlyOrTwice_ThrowsAndSpoilsNoOtherCall()
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);
        ValueTask<long> early = queue.Producer.ProduceAsync(0);
        gate.WaitForFlush();
        Assert.Throws<InvalidOperationException>(() => early.GetAwaiter().GetResult());
        List<long> expected = [];
        List<Task<long>> others = [];
        for (int i = 0; i < 20; i++)
        {
            expected.Add(queue.Producer.Offset);
            others.Add(queue.Producer.ProduceAsync(i).AsTask());
        }

        gate.Open();
        Assert.Equal(expected, await Task.WhenAll(others));
        Assert.Equal(0, await early);
        Assert.Throws<InvalidOperationException>(() => early.GetAwaiter().GetResult());
        Assert.Equal(queue.Producer.Offset, await queue.Producer.ProduceAsync(1));
    }

    /// <summary>
    /// Somebody's open claim holds one call up, and only what is after it: a call with a nearer goal, which came while the
    /// flush thread waited there, was durable and told of it minutes later.
    /// </summary>
    [Fact]
    public async Task FlushAsync_BeforeAnOpenClaim_EndsWhileAnotherBehindItWaits()
    {
        using LevelCase test = new(structs: false, ProducerMode.Shared, portable: false);
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = test.Store.StorePath,
            Durability = DurabilityLevel.PageCache,
        });
        MappedFileProducer producer = queue.Producer;
        for (int round = 0; round < 20; round++)
        {
            long before = producer.Produce(new byte[100_000]);
            using var isHeld = new ManualResetEventSlim();
            using var mayPublish = new ManualResetEventSlim();
            Task holder = Task.Factory.StartNew(
                () =>
                {
                    using MessageClaim claim = producer.DangerousClaim(8);
                    isHeld.Set();
                    mayPublish.Wait();
                    claim.Publish(8);
                },
                TaskCreationOptions.LongRunning);
            isHeld.Wait(TestContext.Current.CancellationToken);
            producer.Produce(new byte[8]);
            Task<long> behind = producer.FlushAsync(long.MaxValue).AsTask();
            long began = System.Diagnostics.Stopwatch.GetTimestamp();
            while (System.Diagnostics.Stopwatch.GetElapsedTime(began).TotalMicroseconds < 50 * round)
            {
            }

            Assert.True(await producer.FlushAsync(before + 1).AsTask().WaitAsync(Eventually.DefaultDeadline) > before);
            Assert.False(behind.IsCompleted);
            mayPublish.Set();
            await holder;
            await behind;
        }
    }

    /// <summary>
    /// Produce returns where the message begins. `FlushAsync(Produce(m))` covered what was before it, and returned with the
    /// message not on disk.
    /// </summary>
    [Theory]
    [MemberData(nameof(Cases))]
    public async Task FlushAsync_OfWhatProduceReturned_CoversThatMessage(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        foreach (DurabilityLevel level in Enum.GetValues<DurabilityLevel>())
        {
            using QueueUnderTest queue = test.Open(level);
            for (int i = 0; i < 3; i++)
            {
                long offset = queue.Producer.Produce(i);
                Assert.Equal(queue.Producer.Offset, await queue.Producer.FlushAsync(offset));
                Assert.Equal(queue.Producer.Offset, queue.Producer.ConfirmedOffset);
            }

            // Its own beginning: a batch is covered as far as its first message, which is flushed with the rest at the least.
            long batch = queue.Producer.ProduceBatch(3, 4, 5);
            Assert.True(await queue.Producer.FlushAsync(batch) > batch);
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task FlushAsync_WithoutAnOffset_CoversAllThatIsPublished(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        foreach (DurabilityLevel level in Enum.GetValues<DurabilityLevel>())
        {
            using QueueUnderTest queue = test.Open(level);
            queue.Producer.Produce(1);
            Assert.Equal(queue.Producer.Offset, await queue.Producer.FlushAsync());
            queue.Producer.Produce(2);
            Assert.Equal(queue.Producer.Offset, await queue.FlushAsync());
            Assert.Equal(queue.Producer.Offset, queue.Producer.ConfirmedOffset);

            queue.Producer.Produce(3);
            Assert.True(queue.Producer.FlushAsync(new CancellationToken(canceled: true)).IsCanceled);
            Assert.True(queue.FlushAsync(new CancellationToken(canceled: true)).IsCanceled);
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task FlushAsync_EveryLevel_ConfirmsWhatIsPublished(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.PageCache);
        long offset = queue.Producer.Produce(1);

        Assert.True(await queue.Producer.FlushAsync(offset + 1) > offset);

        int flushes = test.Services.SegmentFlushes;
        Assert.True(queue.Producer.FlushAsync(offset + 1).IsCompletedSuccessfully);
        Assert.Equal(flushes, test.Services.SegmentFlushes);
        long last = queue.Producer.Produce(2);
        // More than there is: what is published at the call is enough.
        Assert.True(await queue.Producer.FlushAsync(long.MaxValue) > last);
        Assert.Equal(queue.Producer.Offset, await queue.Producer.FlushAsync(long.MaxValue));
    }

    [Fact]
    public async Task ProduceAsync_Cancelled_TheMessageStaysAppendedAndTheNextOneGoesOn()
    {
        using LevelCase test = new(structs: false, ProducerMode.Shared, portable: false);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        using var gate = new FlushGate(test.Services);
        using var source = new CancellationTokenSource();
        Task<long> cancelled = queue.Producer.ProduceAsync(1, source.Token).AsTask();
        ValueTask<long> kept = queue.Producer.ProduceAsync(2);
        gate.WaitForFlush();

        await source.CancelAsync();

        OperationCanceledException error = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled);
        Assert.Contains("stay appended", error.Message, StringComparison.Ordinal);
        Assert.True(queue.Producer.ProduceAsync(3, source.Token).IsCanceled);
        Assert.Equal([1, 2], queue.ReadAll());
        gate.Open();
        await kept;
        Assert.True(await queue.Producer.ProduceAsync(4) < queue.Producer.ConfirmedOffset);
    }

    [Fact]
    public async Task ProduceAsync_QueueIsDisposed_EndsEitherWay()
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        for (int round = 0; round < 20; round++)
        {
            QueueUnderTest queue = test.Open(DurabilityLevel.Group);
            List<Task<long>> calls = [.. Enumerable.Range(0, 20).Select(i => queue.Producer.ProduceAsync(i).AsTask())];
            queue.Dispose();
            // The last flush of the queue covers them.
            Assert.Equal(20, (await Task.WhenAll(calls)).Distinct().Count());
        }
    }

    [Fact]
    public async Task CommitAsyncAndDurableCommit_FlushTheCursor()
    {
        WatchedServices services = WatchedServices.Use(portable: false);
        using TempStore store = new();
        using var queue = new MappedFileQueue<Tick>(new MappedFileQueueOptions { StorePath = store.StorePath });
        queue.Producer.ProduceBatch([Tick.Make(0, 1), Tick.Make(0, 2), Tick.Make(0, 3)]);
        int made = services.CursorFlushes;
        queue.Consumer.Consume(out _);
        queue.Consumer.Commit();
        int before = services.CursorFlushes;
        queue.Consumer.Consume(out _);

        queue.Consumer.Commit(durable: true);

        Assert.Equal(before + 1, services.CursorFlushes);
        queue.Consumer.Consume(out _);
        await queue.Consumer.CommitAsync();
        Assert.Equal(before + 2, services.CursorFlushes);
        Assert.Equal(queue.Producer.Offset, queue.Consumer.CommittedOffset);
        Assert.True(queue.Consumer.CommitAsync(new CancellationToken(canceled: true)).IsCanceled);
        Assert.True(made <= before);
        queue.Consumer.Dispose();
        Assert.Throws<ObjectDisposedException>(() => queue.Consumer.Commit(durable: true));
    }

    private static async Task<string?> NameOfContinuation(ValueTask<long> call)
    {
        await call.ConfigureAwait(false);
        return Thread.CurrentThread.Name;
    }
}

namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public async Task ProduceAsync_WithOptions_TheLevelOfTheCallCounts(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, NoInterval);
        long first = await pair.Producer.ProduceAsync(0, new ProduceOptions { Durability = DurabilityLevel.PageCache });
        Assert.True(pair.Producer.ConfirmedOffset <= first);

        long second = await pair.Producer.ProduceAsync(
            1, new ProduceOptions { Durability = DurabilityLevel.Group, Timeout = Eventually.DefaultDeadline });
        Assert.True(pair.Producer.ConfirmedOffset > second);
        long third = await pair.Producer.ProduceBatchAsync(
            Numbers(2, 5), new ProduceOptions { Durability = DurabilityLevel.Group });
        Assert.True(pair.Producer.ConfirmedOffset >= pair.Producer.Offset);

        Assert.Equal(Numbers(2, 5), pair.Right.ReadAll(QueueStart.FromOffset(third)));
        Assert.Equal(Numbers(0, 7), pair.Right.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ProduceAsync_OptionsOutOfRangeOrCancelled_AppendsNothing(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        var cancelled = new ProduceOptions { CancellationToken = new CancellationToken(canceled: true) };
        await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => await pair.Producer.ProduceAsync(0, cancelled));
        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            async () => await pair.Producer.ProduceBatchAsync([0, 1], cancelled));
        foreach (ProduceOptions wrong in new ProduceOptions[]
            { new() { Timeout = TimeSpan.FromSeconds(-2) }, new() { Durability = (DurabilityLevel)7 } })
        {
            Assert.Throws<ArgumentOutOfRangeException>(() => { _ = pair.Producer.ProduceAsync(0, wrong); });
            Assert.Throws<ArgumentOutOfRangeException>(() => { _ = pair.Producer.ProduceBatchAsync([0, 1], wrong); });
        }

        Assert.Equal(pair.Producer.Offset, await pair.Producer.ProduceBatchAsync([], default));
        Assert.Empty(pair.Right.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ProduceBatchAsync_Full_WaitsAsAWholeInTheOrderOfTheCalls(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);
        int produced = Fill(pair.Producer);
        int threads = ThreadCount;
        const int batches = 200;
        List<Task<long>> appends = [];
        for (int i = 0; i < batches; i++)
        {
            appends.Add(pair.Producer.ProduceBatchAsync(Numbers(produced + (i * 4), 3), default).AsTask());
            appends.Add(pair.Producer.ProduceAsync(produced + (i * 4) + 3, default(ProduceOptions)).AsTask());
        }

        Assert.All(appends, append => Assert.False(append.IsCompleted));
        Assert.InRange(ThreadCount - threads, int.MinValue, batches / 2);
        int count = produced + (batches * 4);
        List<long> read = [];
        while (read.Count < count)
        {
            read.Add(consumer.Consume(Deadline));
            consumer.Commit();
        }

        Assert.Equal(Numbers(0, count), read);
        long[] offsets = await Task.WhenAll(appends).WaitAsync(Deadline);
        Assert.Equal(offsets.Order(), offsets);
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ProduceAsync_Full_TimeoutCancellationAndThrowAppendNothing(Segments segments, bool two)
    {
        using QueuePair pair = OpenLimited(segments, two);
        Close(pair.Right.OpenConsumer("closed"));
        int produced = Fill(pair.Producer);
        long tail = pair.Producer.Offset;
        foreach (TimeSpan timeout in new[] { TimeSpan.Zero, TimeSpan.FromMilliseconds(20) })
        {
            var timed = new ProduceOptions { Timeout = timeout };
            var error = await Assert.ThrowsAsync<TimeoutException>(async () => await pair.Producer.ProduceAsync(0, timed));
            Assert.Contains("nothing was appended", error.Message, StringComparison.Ordinal);
            await Assert.ThrowsAsync<TimeoutException>(async () => await pair.Producer.ProduceBatchAsync([0, 1], timed));
        }

        foreach (TimeSpan? timeout in new TimeSpan?[] { null, Eventually.DefaultDeadline })
        {
            using var source = new CancellationTokenSource();
            var options = new ProduceOptions { CancellationToken = source.Token, Timeout = timeout };
            Task<long> one = pair.Producer.ProduceAsync(0, options).AsTask();
            Task<long> batch = pair.Producer.ProduceBatchAsync([0, 1], options).AsTask();
            Assert.False(one.IsCompleted || batch.IsCompleted);
            source.Cancel();
            foreach (Task<long> task in new[] { one, batch })
            {
                var error = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => task);
                Assert.Equal(source.Token, error.CancellationToken);
            }
        }

        Assert.Equal(tail, pair.Producer.Offset);
        pair.Reopen(options => options.FullMode = FullMode.Throw);
        Assert.Throws<QueueFullException>(() => { _ = pair.Producer.ProduceAsync(0, default(ProduceOptions)); });
        Assert.Throws<QueueFullException>(() => { _ = pair.Producer.ProduceBatchAsync([0, 1], default); });
        Assert.Equal(tail, pair.Producer.Offset);
        Assert.Equal(Numbers(0, produced), pair.Right.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ProduceAsync_FlushTakesTooLong_TheMessageStays(Segments segments, bool two)
    {
        FaultyDisk? disk = null;
        using QueuePair pair = Open(segments, two, options =>
        {
            NoInterval(options);
            disk = new FaultyDisk();
        });
        await pair.Producer.ProduceAsync(0, new ProduceOptions { Durability = DurabilityLevel.Group });
        using var gate = new ManualResetEventSlim();
        disk!.Before = (call, name) =>
        {
            if (call == DiskCall.Sync && name.StartsWith("commitlog/", StringComparison.Ordinal))
                gate.Wait(Deadline);
        };
        var options = new ProduceOptions { Durability = DurabilityLevel.Group, Timeout = TimeSpan.FromMilliseconds(20) };

        var error = await Assert.ThrowsAsync<TimeoutException>(
            async () => await pair.Producer.ProduceBatchAsync([1, 2], options));

        disk.Before = null;
        gate.Set();
        Assert.Contains("stay appended", error.Message, StringComparison.Ordinal);
        Assert.Equal(Numbers(0, 3), pair.Right.ReadAll());
    }
}

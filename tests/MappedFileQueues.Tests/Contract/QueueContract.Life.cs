using MappedFileQueues.Threads;

namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void Dispose_WhileAConsumerWaits_ItGetsObjectDisposed(Segments segments, bool two)
    {
        foreach (bool disposesTheQueue in new[] { false, true })
        {
            using QueuePair pair = Open(segments, two);
            ConsumerUnderTest consumer = pair.Consumer;
            BackgroundCall waiting = BackgroundCall.Start(() => consumer.Consume());
            Eventually.True(() => pair.HasWaiter, "the consumer goes to sleep");
            if (disposesTheQueue)
                pair.Right.Dispose();
            else
                consumer.Dispose();

            Assert.IsType<ObjectDisposedException>(waiting.JoinSilently());
        }
    }

    [Theory, MemberData(nameof(Places))]
    public async Task Dispose_WhileAnAsyncCallWaits_ItGetsObjectDisposed(Segments segments, bool two)
    {
        foreach (bool disposesTheQueue in new[] { false, true })
        {
            using QueuePair pair = Open(segments, two);
            ConsumerUnderTest consumer = pair.Consumer;
            Task<long> pending = consumer.ConsumeAsync(Deadline).AsTask();
            if (disposesTheQueue)
                await pair.Right.DisposeAsync();
            else
                consumer.Dispose();

            await Assert.ThrowsAsync<ObjectDisposedException>(() => pending);
            await Assert.ThrowsAsync<ObjectDisposedException>(async () => await consumer.ConsumeAsync(Deadline));
        }
    }

    [Theory, MemberData(nameof(Places))]
    public void AfterDispose_EveryMember_ThrowsObjectDisposedOrAnswers(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProducerUnderTest producer = pair.Producer;
        ConsumerUnderTest consumer = pair.Consumer;
        ProduceMany(producer, 10);
        consumer.Take(5);
        long committed = consumer.CommittedOffset;
        pair.Close();

        Action[] refused =
        [
            () => producer.Produce(1), () => producer.ProduceBatch(1, 2), () => _ = producer.ConfirmedOffset,
            () => producer.Prepare(100_000), () => consumer.Consume(),
            () => consumer.TryConsume(out _), () => consumer.Peek(), () => consumer.ConsumeBatch(3), () => consumer.Commit(),
            () => consumer.Commit(0), () => consumer.Advance(), () => consumer.Rewind(), () => consumer.AdjustOffset(0),
            () => consumer.SeekToEnd(), () => consumer.SeekToStart(), () => pair.Left.Flush(), () => pair.Left.GetInfo(),
            () => pair.Left.OpenProducer(), () => pair.Left.OpenConsumer("x"), () => pair.Left.ReadAll(),
        ];
        foreach (Action call in refused)
            Assert.Throws<ObjectDisposedException>(call);
        Assert.Equal(committed, consumer.CommittedOffset);
        Assert.Equal(committed, consumer.Offset);
        Assert.True(consumer.MessageOffset < committed);
        producer.Dispose();
        consumer.Dispose();
    }

    [Theory, MemberData(nameof(Places))]
    public void Dispose_BesideEveryKindOfCall_NothingCrashes(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProducerUnderTest producer = pair.Producer;
        ConsumerUnderTest consumer = pair.Consumer;
        QueueUnderTest queue = pair.Right;
        producer.Produce(0);
        Action[] loops =
        [
            () => producer.Produce(1), () => { consumer.Consume(); consumer.Commit(); }, () => queue.Flush(),
            () => queue.GetInfo(), () => _ = producer.ConfirmedOffset, () => queue.OpenConsumer("other").Dispose(),
        ];
        int[] calls = new int[loops.Length];
        List<BackgroundCall> running = [.. loops.Select((loop, index) => BackgroundCall.Start(() =>
        {
            while (true)
            {
                loop();
                Interlocked.Increment(ref calls[index]);
            }
        }))];
        Eventually.True(() => calls.All(count => count > 0), "the calls are under way");
        pair.Close();

        foreach (BackgroundCall call in running)
            Assert.IsType<ObjectDisposedException>(call.JoinSilently());
    }

    [Theory, MemberData(nameof(Places))]
    public void Dispose_InAnyOrder_EverythingIsLetGo(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        for (int order = 0; order < 3; order++)
        {
            ProducerUnderTest producer = pair.Producer;
            ConsumerUnderTest consumer = pair.Right.OpenConsumer("named");
            producer.Produce(order);
            Assert.Equal(order, consumer.Consume());
            consumer.Commit();
            switch (order)
            {
                case 0:
                    producer.Dispose();
                    consumer.Dispose();
                    break;
                case 1:
                    consumer.Dispose();
                    pair.Right.Dispose();
                    producer.Dispose();
                    break;
                default:
                    pair.Left.Dispose();
                    producer.Dispose();
                    consumer.Dispose();
                    break;
            }

            pair.Close();
            pair.Close();
            pair.Reopen();
        }

        pair.Close();
        MappedFileQueue.Delete(pair.Path);
        Assert.False(Directory.Exists(pair.Path));
    }

    [Theory, MemberData(nameof(Places))]
    public void Delete_WhileAttached_RefusedNamingTheHolder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        pair.Producer.Produce(0);

        string message = Assert.Throws<QueueInUseException>(() => MappedFileQueue.Delete(pair.Path)).Message;
        Assert.Contains(pair.Path, message, StringComparison.Ordinal);
        Assert.Equal(0, pair.Consumer.Consume());

        pair.Close();
        MappedFileQueue.Delete(pair.Path);
        MappedFileQueue.Delete(pair.Path);
        Assert.False(Directory.Exists(pair.Path));
        Directory.CreateDirectory(pair.Path);
        Assert.Throws<QueueFormatException>(() => MappedFileQueue.Delete(pair.Path));
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenConsumer_NameTaken_RefusedNamingTheHolder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        using ConsumerUnderTest holder = pair.Left.OpenConsumer("Audit-1");

        string message = Assert.Throws<QueueInUseException>(() => pair.Right.OpenConsumer("aUDIT-1")).Message;
        Assert.Contains("aUDIT-1", message, StringComparison.Ordinal);
        Assert.Contains(_portable ? "holder=" : "holder=this process", message, StringComparison.Ordinal);

        holder.Dispose();
        using ConsumerUnderTest next = pair.Right.OpenConsumer("AUDIT-1");
        Assert.Throws<ArgumentException>(() => pair.Left.OpenConsumer("a/b"));
        Assert.Throws<ArgumentException>(() => pair.Left.OpenConsumer(new string('x', 101)));
        Assert.Throws<ArgumentNullException>(() => pair.Left.OpenConsumer(null!));
        pair.Left.OpenConsumer(new string('x', 100)).Dispose();
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenConsumer_LockTimeout_WaitsForTheName(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options => options.LockTimeout = Eventually.DefaultDeadline);
        pair.Producer.Produce(0);
        ConsumerUnderTest holder = pair.Left.OpenConsumer("name");
        ConsumerUnderTest? next = null;
        BackgroundCall opening = BackgroundCall.Start(() => next = pair.Right.OpenConsumer("name"));
        Eventually.True(() => opening.IsWaiting, "the second one waits");
        holder.Take(1);
        holder.Dispose();
        opening.Join();

        Assert.False(next!.TryConsume(out _));
        BackgroundCall ended = BackgroundCall.Start(() => pair.Left.OpenConsumer("name"));
        Eventually.True(() => ended.IsWaiting, "the third one waits");
        pair.Close();
        Assert.IsType<ObjectDisposedException>(ended.JoinSilently());
    }

    [Theory, MemberData(nameof(Places))]
    public async Task OpenConsumerAsync_NameTaken_WaitsUntilItIsFreeOrCancelled(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest holder = pair.Left.OpenConsumer("name");
        using var source = new CancellationTokenSource();
        Task<ConsumerUnderTest> cancelled = pair.Right.OpenConsumerAsync("name", source.Token).AsTask();
        Task<ConsumerUnderTest> waiting = pair.Right.OpenConsumerAsync("NAME", Deadline).AsTask();
        source.Cancel();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled);
        Assert.False(waiting.IsCompleted);

        holder.Dispose();
        using (ConsumerUnderTest next = await waiting)
            Assert.Equal("NAME", next.Name);

        using ConsumerUnderTest again = pair.Left.OpenConsumer("name");
        Task<ConsumerUnderTest> ended = pair.Right.OpenConsumerAsync("name", Deadline).AsTask();
        pair.Right.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => ended);
    }
}

namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void OpenConsumer_Starts_EarliestLatestAndExact(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 200);
        using ConsumerUnderTest earliest = pair.Right.OpenConsumer("earliest", QueueStart.Earliest);
        using ConsumerUnderTest latest = pair.Right.OpenConsumer("latest", QueueStart.Latest);
        using ConsumerUnderTest exact = pair.Right.OpenConsumer("exact", QueueStart.FromOffset(offsets[150]));
        using ConsumerUnderTest tail = pair.Right.OpenConsumer("tail", QueueStart.FromOffset(pair.Producer.Offset));

        Assert.Equal(0, earliest.Consume());
        Assert.False(latest.TryConsume(out _));
        Assert.Equal(150, exact.Consume());
        Assert.Equal(offsets[150], exact.CommittedOffset);
        Assert.False(tail.TryConsume(out _));
        pair.Producer.Produce(200);
        Assert.Equal(200, latest.Consume());
        Assert.Equal(200, tail.Consume());
        foreach (long wrong in new[] { offsets[3] + 1, offsets[3] + 8, pair.Producer.Offset + 8, long.MaxValue & ~7L, 1L << 40 })
            Assert.Throws<OffsetOutOfRangeException>(() => pair.Right.OpenConsumer("wrong", QueueStart.FromOffset(wrong)));
        Assert.Throws<ArgumentOutOfRangeException>(() => QueueStart.FromOffset(-8));
    }

    [Theory, MemberData(nameof(Places))]
    public void NextOffset_EachMessage_IsWhatTheCommitStores(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 200);
        ConsumerUnderTest consumer = pair.Consumer;
        for (int number = 0; number < 200; number++)
        {
            Assert.Equal(number, consumer.Consume());
            long next = consumer.NextOffset;
            Assert.True(next > consumer.Offset);
            consumer.Commit();
            Assert.Equal(next, consumer.CommittedOffset);
            Assert.Equal(consumer.Offset, consumer.NextOffset);
        }
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenConsumer_KnownName_StartDoesNotCount(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 20);
        using (ConsumerUnderTest first = pair.Right.OpenConsumer("known"))
            first.Take(7);

        using ConsumerUnderTest again = pair.Left.OpenConsumer("known", QueueStart.Latest);
        Assert.Equal(7, again.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void AdjustOffset_ToMessagesAndTheTail_MovesAndStores(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, Many);
        ConsumerUnderTest consumer = pair.Consumer;
        foreach (int number in new[] { Many - 1, 0, 1, Many / 2, Many / 3 })
        {
            consumer.AdjustOffset(offsets[number]);
            Assert.Equal(offsets[number], consumer.Offset);
            Assert.Equal(offsets[number], consumer.CommittedOffset);
            Assert.Equal(number, consumer.Consume());
        }

        consumer.AdjustOffset(pair.Producer.Offset);
        Assert.False(consumer.TryConsume(out _));
        pair.Producer.Produce(Many);
        Assert.Equal(Many, consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void AdjustOffset_ElsewhereRefused_PlaceStays(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 10);
        ConsumerUnderTest consumer = pair.Consumer;
        consumer.Take(3);
        consumer.Consume();
        long segment = pair.Left.GetInfo().SegmentSize;
        // Segments may be made long before the tail comes there: their starts are no offsets yet.
        long[] wrong = [offsets[5] + 4, offsets[5] + 8, pair.Producer.Offset + 8, segment, 2 * segment, 5 * segment, 1L << 50];
        foreach (long offset in wrong)
            Assert.Throws<OffsetOutOfRangeException>(() => consumer.AdjustOffset(offset));
        Assert.Throws<ArgumentOutOfRangeException>(() => consumer.AdjustOffset(-1));

        Assert.Equal(offsets[3], consumer.Offset);
        Assert.Equal(offsets[3], consumer.CommittedOffset);
        Assert.Equal(3, consumer.Consume());
        foreach (long offset in wrong.Where(offset => offset % 8 == 0))
            Assert.Throws<OffsetOutOfRangeException>(() => pair.Right.ReadAll(QueueStart.FromOffset(offset)));
    }

    [Theory, MemberData(nameof(Places))]
    public void Seek_StartAndEnd_MovesAndStores(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);
        ConsumerUnderTest consumer = pair.Consumer;

        consumer.SeekToEnd();
        Assert.Equal(pair.Producer.Offset, consumer.CommittedOffset);
        Assert.False(consumer.TryConsume(out _));
        consumer.SeekToStart();
        Assert.Equal(0, consumer.CommittedOffset);
        Assert.Equal(0, consumer.Consume());
        consumer.SeekToEnd();
        pair.Producer.Produce(Many);
        Assert.Equal(Many, consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void Flush_ConfirmsForEveryQueueOnThePath(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, NoInterval);
        ProduceMany(pair.Producer, Many);
        long tail = pair.Producer.Offset;

        Assert.Equal(tail, pair.Right.Flush());

        Assert.Equal(tail, pair.Producer.ConfirmedOffset);
        Assert.Equal(tail, pair.Left.GetInfo().ConfirmedOffset);
        Assert.Equal(tail, StoreInspector.Inspect(pair.Path).ConfirmedOffset);
        Assert.Equal(tail, pair.Left.Flush());
        pair.Producer.Produce(Many);
        Assert.Equal(tail, pair.Producer.ConfirmedOffset);
    }
}

namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void GetInfo_CountsMessages_ExactlyWithBatchesRollsAndTrim(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        using ConsumerUnderTest first = pair.Right.OpenConsumer("first");
        using ConsumerUnderTest second = pair.Right.OpenConsumer("second");
        Assert.Equal(0, pair.Right.GetInfo(countsMessages: true).MessageCount);
        int produced = 0;
        // Batches leave the rest of a segment over, which is padding of any length.
        for (int i = 0; i < 60; i++)
        {
            pair.Producer.Produce(produced);
            pair.Producer.ProduceBatch(Numbers(produced + 1, 9));
            produced += 10;
        }

        Assert.Equal(Numbers(0, 250), first.Take(250));
        Assert.Equal(Numbers(0, 123), second.Take(123));
        AssertCounts(pair, produced, produced - 250, produced - 123);
        Assert.Null(pair.Right.GetInfo().MessageCount);
        Assert.All(pair.Right.GetInfo().Consumers, consumer => Assert.Null(consumer.LagMessages));

        long oldest = pair.Right.Trim(second.CommittedOffset);
        int kept = pair.Right.ReadAll().Count;
        Assert.True(segments != Segments.Tiny || oldest > 0);
        AssertCounts(pair, kept, produced - 250, produced - 123);
        Assert.Equal(Numbers(250, produced - 250), first.Take(produced - 250));
        AssertCounts(pair, kept, 0, produced - 123);
    }

    [Theory, MemberData(nameof(Places))]
    public void FromEnd_EveryCount_BeginsAtThatMessage(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        Assert.Empty(pair.Right.ReadAll(QueueStart.FromEnd(3)));
        const int count = 150;
        for (int i = 0; i < count; i += 10)
        {
            pair.Producer.Produce(i);
            pair.Producer.ProduceBatch(Numbers(i + 1, 9));
        }

        // The places differ in where the messages lie, so one of them is enough for each count.
        int step = segments == Segments.Tiny && !two ? 1 : 13;
        for (int last = 0; last <= count + 10; last += step)
        {
            int expected = Math.Min(last, count);
            Assert.Equal(Numbers(count - expected, expected), pair.Right.ReadAll(QueueStart.FromEnd(last)));
        }

        using ConsumerUnderTest consumer = pair.Right.OpenConsumer("last", QueueStart.FromEnd(1));
        Assert.Equal(count - 1, consumer.Consume());
        Close(consumer);
        pair.Right.ResetConsumer("last", QueueStart.FromEnd(77));
        using ConsumerUnderTest moved = pair.Left.OpenConsumer("last");
        Assert.Equal(Numbers(count - 77, 77), moved.Take(77));

        long oldest = pair.Right.Trim(moved.CommittedOffset);
        Assert.True(segments != Segments.Tiny || oldest > 0);
        Assert.Equal(pair.Right.ReadAll(), pair.Right.ReadAll(QueueStart.FromEnd(count)));
        Assert.Throws<ArgumentOutOfRangeException>(() => QueueStart.FromEnd(-1));
        Assert.Equal(QueueStart.Latest, QueueStart.FromEnd(0));
        Assert.NotEqual(QueueStart.FromEnd(8), QueueStart.FromOffset(8));
    }

    private static void AssertCounts(QueuePair pair, int count, int lagOfFirst, int lagOfSecond)
    {
        foreach (MappedFileQueueInfo info in new[]
            { pair.Right.GetInfo(countsMessages: true), StoreInspector.Inspect(pair.Path, countsMessages: true) })
        {
            Assert.Equal(count, info.MessageCount);
            Assert.Equal(lagOfFirst, info.Consumers.Single(consumer => consumer.Name == "first").LagMessages);
            Assert.Equal(lagOfSecond, info.Consumers.Single(consumer => consumer.Name == "second").LagMessages);
        }
    }
}

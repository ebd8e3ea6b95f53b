namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void Consume_ManyMessages_AllInOrder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);

        Assert.Equal(Numbers(0, Many), pair.Consumer.Take(Many));
        Assert.False(pair.Consumer.TryConsume(out _));
    }

    [Theory, MemberData(nameof(Places))]
    public void Consume_TwiceWithoutCommit_SameMessage(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 3);
        ConsumerUnderTest consumer = pair.Consumer;

        for (int number = 0; number < 3; number++)
        {
            Assert.Equal(number, consumer.Consume());
            Assert.Equal(offsets[number], consumer.Offset);
            Assert.Equal(number, consumer.Consume());
            Assert.Equal(number, consumer.Peek());
            Assert.Equal(offsets[number], consumer.Offset);
            Assert.Equal(offsets[number], consumer.MessageOffset);
            consumer.Commit();
        }
    }

    [Theory, MemberData(nameof(Places))]
    public void Commit_Message_StoresTheOffsetBehindIt(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 3);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(0, consumer.CommittedOffset);

        consumer.Consume();
        Assert.Equal(0, consumer.CommittedOffset);
        consumer.Commit();

        Assert.Equal(offsets[1], consumer.CommittedOffset);
        Assert.Equal(offsets[1], consumer.Offset);
        Assert.Equal(offsets[0], consumer.MessageOffset);
        Assert.Equal(offsets[1], Assert.Single(pair.Left.GetInfo().Consumers).Offset);
    }

    [Theory, MemberData(nameof(Places))]
    public void Commit_NothingInHand_ChangesNothing(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ConsumerUnderTest consumer = pair.Consumer;
        consumer.Commit();
        consumer.Advance();
        Assert.Equal(-1, consumer.MessageOffset);
        List<long> offsets = ProduceMany(pair.Producer, 2);

        consumer.Take(1);
        consumer.Commit();
        consumer.Commit();
        consumer.Advance();

        Assert.Equal(offsets[0], consumer.MessageOffset);
        Assert.Equal(offsets[1], consumer.CommittedOffset);
        Assert.Equal(1, consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void Advance_ReadingAhead_CommitCommitsAllOfIt(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, Many);
        ConsumerUnderTest consumer = pair.Consumer;

        for (int number = 0; number < Many - 1; number++)
        {
            Assert.Equal(number, consumer.Consume());
            consumer.Advance();
        }

        Assert.Equal(0, consumer.CommittedOffset);
        consumer.Consume();
        consumer.Commit();
        Assert.Equal(pair.Producer.Offset, consumer.CommittedOffset);
        Assert.Equal(offsets[^1], consumer.MessageOffset);
    }

    [Theory, MemberData(nameof(Places))]
    public void Rewind_AfterReadingAhead_BackAtTheCommittedMessage(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);
        ConsumerUnderTest consumer = pair.Consumer;
        consumer.Take(10);
        for (int i = 0; i < Many - 20; i++)
        {
            consumer.Consume();
            consumer.Advance();
        }

        consumer.Consume();
        consumer.Rewind();

        Assert.Equal(consumer.CommittedOffset, consumer.Offset);
        Assert.Equal(Numbers(10, Many - 10), consumer.Take(Many - 10));
    }

    [Theory, MemberData(nameof(Places))]
    public void CommitOffset_OfAnEarlierMessage_ReadingPlaceStays(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 100);
        ConsumerUnderTest consumer = pair.Consumer;
        Assert.Equal(60, consumer.ConsumeBatch(60).Count);

        consumer.Commit(offsets[25]);

        Assert.Equal(offsets[25], consumer.CommittedOffset);
        Assert.Equal(60, consumer.Consume());
        consumer.Commit(offsets[61]);
        Assert.Throws<OffsetOutOfRangeException>(() => consumer.Commit(offsets[70]));
        Assert.Throws<OffsetOutOfRangeException>(() => consumer.Commit(offsets[30] + 4));
        Assert.Throws<OffsetOutOfRangeException>(() => consumer.Commit(offsets[30] + 8));
        Assert.Equal(offsets[61], consumer.CommittedOffset);
        Assert.Equal(60, consumer.Consume());
        consumer.Rewind();
        Assert.Equal(61, consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void ConsumeBatch_TakesWhatIsThere_CommitCommitsThemAll(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 100);
        ConsumerUnderTest consumer = pair.Consumer;

        Assert.Equal(Numbers(0, 30), consumer.ConsumeBatch(30));
        Assert.Equal(0, consumer.CommittedOffset);
        Assert.Empty(consumer.ConsumeBatch(0));
        Assert.Equal(Numbers(30, 70), consumer.ConsumeBatch(1000));
        consumer.Commit();

        Assert.Equal(pair.Producer.Offset, consumer.CommittedOffset);
    }

    [Theory, MemberData(nameof(Places))]
    public void ConsumeBatch_MessageInHand_GoesOnBehindIt(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 5);

        Assert.Equal(0, pair.Consumer.Consume());
        Assert.Equal(Numbers(1, 4), pair.Consumer.ConsumeBatch(10));
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenConsumer_AfterReopen_BeginsAtTheCommittedOffset(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);
        pair.Consumer.Take(Many / 2);
        pair.Consumer.Consume();

        pair.Reopen();

        Assert.Equal(Numbers(Many / 2, Many / 2), pair.Consumer.Take(Many / 2));
        pair.Producer.Produce(Many);
        Assert.Equal(Many, pair.Consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void Consume_TwoNames_EachGetsAll(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        using ConsumerUnderTest first = pair.Left.OpenConsumer("first");
        using ConsumerUnderTest second = pair.Right.OpenConsumer("second");
        ProduceMany(pair.Producer, Many);

        Assert.Equal(Numbers(0, Many), first.Take(Many));
        Assert.Equal(Numbers(0, Many), second.Take(Many));
        Assert.Equal("first", first.Name);
        Assert.Equal("", pair.Consumer.Name);
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenReader_WhileProducing_ReadsAllAndSeesNewOnes(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, Many);

        Assert.Equal(Numbers(0, Many), pair.Right.ReadAll());
        Assert.Equal(Numbers(Many / 2, Many / 2), pair.Right.ReadAll(QueueStart.FromOffset(offsets[Many / 2])));
        Assert.Empty(pair.Right.ReadAll(QueueStart.Latest));
        Assert.Empty(pair.Left.GetInfo().Consumers);
    }
}

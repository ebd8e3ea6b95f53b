using MappedFileQueues.Threads;

namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void Produce_ReturnsTheMessagesOffset_AndOffsetTellsTheNext(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, Many);
        ConsumerUnderTest consumer = pair.Consumer;

        Assert.Equal(0, offsets[0]);
        for (int number = 0; number < Many; number++)
        {
            Assert.Equal(0, offsets[number] % 8);
            Assert.Equal(number, consumer.Consume());
            Assert.Equal(offsets[number], consumer.MessageOffset);
            consumer.Commit();
        }

        Assert.True(pair.Producer.Offset > offsets[^1]);
        long next = pair.Producer.Offset;
        long produced = pair.Producer.Produce(Many);
        // The tail is the next message's place unless the rest of the segment is too short for it.
        Assert.True(produced == next || (produced > next && produced % pair.Left.GetInfo().SegmentSize == 0));
    }

    [Theory, MemberData(nameof(Places))]
    public void ProduceBatch_OfMany_ReadableInOrder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        long number = 0;
        foreach (int count in Enumerable.Range(1, 40))
        {
            long tail = pair.Producer.Offset;
            long offset = pair.Producer.ProduceBatch(Numbers(number, count));
            Assert.True(offset >= tail);
            number += count;
        }

        Assert.Equal(Numbers(0, (int)number), pair.Consumer.Take((int)number));
    }

    [Theory, MemberData(nameof(Places))]
    public void ProduceBatch_Empty_DoesNothing(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        pair.Producer.Produce(0);

        Assert.Equal(pair.Producer.Offset, pair.Producer.ProduceBatch());
        Assert.Equal(1, pair.Producer.Produce(1) > 0 ? 1 : 0);
        Assert.Equal([0, 1], pair.Consumer.Take(2));
    }

    [Theory, MemberData(nameof(Places))]
    public void ProduceBatch_ReadBeside_NeverInPart(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        const int batches = 300;
        const int size = 10;
        using ConsumerUnderTest consumer = pair.Right.OpenConsumer("beside");
        ProducerUnderTest producer = pair.Producer;
        BackgroundCall writing = BackgroundCall.Start(() =>
        {
            for (int batch = 0; batch < batches; batch++)
                producer.ProduceBatch(Numbers(batch * size, size));
        });

        for (int batch = 0; batch < batches; batch++)
        {
            Assert.Equal(batch * size, consumer.Consume(Deadline));
            consumer.Advance();
            // The first one is readable, so the others are: no wait may be needed.
            for (int i = 1; i < size; i++)
            {
                Assert.True(consumer.TryConsume(out long number), $"Message {i} of batch {batch} is missing.");
                Assert.Equal((batch * size) + i, number);
                consumer.Advance();
            }
        }

        writing.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public void ProduceBatch_LargerThanASegment_RefusedAndNothingWritten(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options => options.SegmentSize = Math.Min(options.SegmentSize, 256 * 1024));
        pair.Producer.Produce(0);
        long tail = pair.Producer.Offset;

        var error = Assert.Throws<ArgumentOutOfRangeException>(() => pair.Producer.ProduceBatch(Numbers(1, 9000)));

        Assert.Contains("limit=", error.Message, StringComparison.Ordinal);
        Assert.Equal(tail, pair.Producer.Offset);
        pair.Producer.Produce(1);
        Assert.Equal([0, 1], pair.Consumer.Take(2));
        Assert.False(pair.Consumer.TryConsume(out _));
    }

    [Theory, MemberData(nameof(Places))]
    public void ProduceWithOptions_Cancelled_NothingWritten(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        var cancelled = new CancellationToken(canceled: true);

        Assert.Throws<OperationCanceledException>(
            () => pair.Producer.Produce(7, new ProduceOptions { CancellationToken = cancelled }));
        Assert.True(pair.Producer.ProduceAsync(7, cancelled).IsCanceled);
        pair.Producer.Produce(0, new ProduceOptions { CancellationToken = CancellationToken.None });
        Assert.True(pair.Producer.TryProduce(1));

        Assert.Equal([0, 1], pair.Consumer.Take(2));
        Assert.False(pair.Consumer.TryConsume(out _));
    }

    [Theory, MemberData(nameof(Places))]
    public async Task ProduceAsync_FlushAsync_CompleteAndConfirm(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, NoInterval);
        long offset = await pair.Producer.ProduceAsync(0);
        Assert.Equal(0, pair.Producer.ConfirmedOffset);

        long confirmed = await pair.Producer.FlushAsync(offset + 1);

        Assert.Equal(pair.Producer.Offset, confirmed);
        Assert.Equal(0, pair.Consumer.Consume());
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenProducer_ThreadsEndAndAreReplaced_NothingLost(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProducerUnderTest producer = pair.Producer;
        const int threads = 60;
        for (int i = 0; i < threads; i++)
        {
            int number = i;
            var thread = new Thread(() => ProduceMany(producer, 5, number * 5));
            thread.Start();
            thread.Join();
        }

        Assert.Equal(Numbers(0, threads * 5), pair.Consumer.Take(threads * 5));
    }

    [Theory, MemberData(nameof(Places))]
    public void OpenProducer_AnotherOne_SharedTakesTurnsExclusiveRefuses(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        pair.Producer.Produce(0);
        if (_mode == ProducerMode.Exclusive)
        {
            string message = Assert.Throws<QueueInUseException>(() => pair.Right.OpenProducer()).Message;
            if (two)
                Assert.Contains(_portable ? "holder=" : "holder=this process", message, StringComparison.Ordinal);
            using QueueUnderTest shared = pair.OpenAnother(options => options.ProducerMode = ProducerMode.Shared);
            Assert.Throws<QueueInUseException>(() => shared.OpenProducer());
            pair.Producer.Dispose();
            using ProducerUnderTest next = shared.OpenProducer();
            next.Produce(1);
        }
        else
        {
            using ProducerUnderTest second = pair.Right.OpenProducer();
            second.Produce(1);
            using QueueUnderTest exclusive = pair.OpenAnother(options => options.ProducerMode = ProducerMode.Exclusive);
            Assert.Throws<QueueInUseException>(() => exclusive.OpenProducer());
        }

        Assert.Equal([0, 1], pair.Consumer.Take(2));
    }

    [Theory, MemberData(nameof(Places))]
    public void ForceFlushInterval_EveryThird_ConfirmsThem(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options =>
        {
            NoInterval(options);
            options.ProducerForceFlushIntervalCount = 3;
        });
        ProducerUnderTest producer = pair.Producer;
        producer.Produce(0);
        producer.Produce(1);
        Assert.Equal(0, producer.ConfirmedOffset);

        producer.Produce(2);
        long third = producer.Offset;
        Assert.Equal(third, producer.ConfirmedOffset);

        producer.Produce(3);
        producer.Produce(4);
        Assert.Equal(third, producer.ConfirmedOffset);
        producer.ProduceBatch(5, 6);
        Assert.Equal(producer.Offset, producer.ConfirmedOffset);
    }

    [Theory, MemberData(nameof(Places))]
    public void Prepare_Ahead_MessagesFollow(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        pair.Producer.Prepare(100_000);
        ProduceMany(pair.Producer, Many);
        pair.Producer.Prepare(0);

        Assert.Equal(Numbers(0, Many), pair.Consumer.Take(Many));
    }
}

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// 1.x refused to move a consumer with a message in hand. Its interfaces still do, because code after them may rely on it; the
/// classes move, as Seek and Rewind do. A producer cannot be moved at all.
/// </summary>
public sealed class AdjustInHandTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void AdjustOffset_StructInHand_IsRefusedThroughTheInterfaceAlone()
    {
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        long message = 7;
        queue.Producer.Produce(ref message);
        IMappedFileConsumer<long> old = queue.Consumer;
        old.Consume(out _);

        Assert.Throws<InvalidOperationException>(() => old.AdjustOffset(0));
        queue.Consumer.AdjustOffset(0);
        old.Consume(out long again);
        Assert.Equal(7, again);
        old.Commit();
        old.AdjustOffset(0);
    }

    [Fact]
    public void AdjustOffset_MessageInHand_IsRefusedThroughTheInterfaceAlone()
    {
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        queue.Producer.Produce("text"u8);
        IMappedFileConsumer old = queue.Consumer;
        old.Consume();

        Assert.Throws<InvalidOperationException>(() => old.AdjustOffset(0));
        queue.Consumer.AdjustOffset(0);
        Assert.Equal("text"u8.ToArray(), old.Consume().ToArray());
        old.Commit();
        old.AdjustOffset(0);
    }

    /// <summary>1.x let a producer begin elsewhere. Code that names the offset where the producer is works as it did.</summary>
    [Fact]
    public void AdjustOffset_OfAProducer_WorksAtItsOwnOffsetAlone()
    {
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        IMappedFileProducer<long> producer = queue.Producer;
        producer.AdjustOffset(0);
        long message = 7;
        producer.Produce(ref message);

        foreach (long offset in (long[])[0, 8, 4096, -8, long.MaxValue])
            Assert.Throws<NotSupportedException>(() => producer.AdjustOffset(offset));
        producer.AdjustOffset(producer.Offset);
        queue.Consumer.Consume(out long same);
        Assert.Equal(7, same);
    }
}

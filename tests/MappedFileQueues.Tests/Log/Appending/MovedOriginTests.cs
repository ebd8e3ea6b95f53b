namespace MappedFileQueues.Tests.Log.Appending;

/// <summary>
/// The order of 1.x: the consumer is opened first, then the producer's offset is adjusted. A consumer or reader of the empty
/// store stood before the log afterwards: it threw that its messages were removed, for good, though none ever existed.
/// </summary>
public sealed class MovedOriginTests : IDisposable
{
    private const int Segment = 64 * 1024;
    private const long Origin = 1_000_000;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void AdjustOffset_AfterConsumersAndReaders_AllReadOn(ProducerMode mode)
    {
        using (MappedFileQueue queue = Open(mode))
        {
            queue.OpenConsumer("closed").Dispose();
            using MappedFileConsumer looked = queue.OpenConsumer("looked");
            Assert.False(looked.TryConsume(out _));
            using MappedFileConsumer fresh = queue.OpenConsumer("fresh");
            using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
            Assert.False(reader.TryRead(out _));

            queue.Producer.AdjustOffset(Origin);
            looked.Commit();
            Assert.Equal(Origin, queue.Producer.Produce("x"u8));

            foreach (MappedFileConsumer consumer in new[] { looked, fresh })
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                Assert.Equal("x"u8, message);
                consumer.Commit();
                Assert.Equal(Origin + 16, consumer.CommittedOffset);
            }

            Assert.True(reader.TryRead(out _));
        }

        using (MappedFileQueue queue = Open(mode))
        using (MappedFileConsumer closed = queue.OpenConsumer("closed"))
            Assert.True(closed.TryConsume(out _));
    }

    /// <summary>It threw "only before the first message" although there was none: padding stood before the tail.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared, 1600)]
    [InlineData(ProducerMode.Shared, Origin)]
    [InlineData(ProducerMode.Exclusive, 1600)]
    [InlineData(ProducerMode.Exclusive, Origin)]
    public void AdjustOffset_Twice_MovesTwice(ProducerMode mode, long second)
    {
        using MappedFileQueue queue = Open(mode);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        queue.Producer.AdjustOffset(800);
        Assert.False(consumer.TryConsume(out _));

        queue.Producer.AdjustOffset(second);

        Assert.Equal(second, queue.Producer.Produce("x"u8));
        Assert.True(consumer.TryConsume(out _));
        Assert.Throws<InvalidOperationException>(() => queue.Producer.AdjustOffset(2 * Origin));
    }

    /// <summary>Retention took it for a consumer that was dropped, and removed what it had not read.</summary>
    [Fact]
    public void AdjustOffset_AfterAConsumer_RetentionKeepsWhatItNeeds()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared);
        queue.OpenConsumer("closed").Dispose();
        queue.Producer.AdjustOffset(Origin);
        byte[] message = new byte[Segment / 4];
        for (int number = 0; number < 20; number++)
            queue.Producer.Produce(message);

        Assert.Equal(Origin / Segment * Segment, queue.Trim(long.MaxValue));
        Assert.Equal(Origin / Segment * Segment, queue.GetInfo().Consumers.Single().Offset);
    }

    /// <summary>The other way round: what was removed before the move was there, and its consumer must hear of it.</summary>
    [Fact]
    public void AdjustOffset_AfterARemoval_ConsumerOfWhatWasRemovedIsTold()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared);
        queue.OpenConsumer("late").Dispose();
        queue.Producer.Produce(new byte[Segment - 8]);
        queue.Producer.Prepare(Segment);
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });
        Assert.Equal(Segment, queue.Trim(long.MaxValue));

        queue.Producer.AdjustOffset(Origin);
        queue.Producer.Produce("x"u8);

        Assert.Throws<OffsetOutOfRangeException>(() => queue.OpenConsumer("late"));
    }

    private MappedFileQueue Open(ProducerMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = Segment,
        ProducerMode = mode,
        Durability = DurabilityLevel.PageCache,
    });
}

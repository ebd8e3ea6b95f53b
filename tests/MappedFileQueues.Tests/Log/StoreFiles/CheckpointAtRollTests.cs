namespace MappedFileQueues.Tests.Log.StoreFiles;

/// <summary>
/// docs/DESIGN.md section 4: completed segments are flushed and get a checkpoint though nobody asks for it. The story: the
/// notice of a roll hung on the padding at a segment's end; messages that fill segments exactly leave none, so no checkpoint was
/// ever written, and the next opener after deaths walked over the whole log.
/// </summary>
public sealed class CheckpointAtRollTests
{
    private const int Segment = 1 << 20;

    [Theory]
    [InlineData(ProducerMode.Shared, 4088)]
    [InlineData(ProducerMode.Exclusive, 4088)]
    [InlineData(ProducerMode.Shared, 4000)]
    [InlineData(ProducerMode.Exclusive, 4000)]
    public void Produce_SegmentCompleted_IsConfirmedWithoutAFlush(ProducerMode mode, int length)
    {
        using var store = new TempStore();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = Segment,
            ProducerMode = mode,
        });
        byte[] message = new byte[length];
        while (queue.Producer.Offset <= Segment)
            queue.Producer.Produce(message);

        Eventually.True(() => queue.GetInfo().ConfirmedOffset >= Segment, "the completed segment is confirmed");
    }
}

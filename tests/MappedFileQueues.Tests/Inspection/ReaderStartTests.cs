namespace MappedFileQueues.Tests.Inspection;

/// <summary>Where a reader that leaves no trace starts, beside retention.</summary>
public sealed class ReaderStartTests : IDisposable
{
    private const int Segment = 64 * 1024;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A start is found, and retention removes it before the reader is open. `mfq tail`, which promises to step over that, failed
    /// beside fast retention with an error about an offset that its user never gave.
    /// </summary>
    [Fact]
    public void Open_AtAnOffsetThatWasRemoved_StepsOverAndTells()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = Segment });
        long start = queue.Producer.Produce(new byte[100]);
        for (int number = 0; number < 10; number++)
            queue.Producer.Produce(new byte[Segment / 2]);
        long oldest = queue.Trim(long.MaxValue);
        Assert.True(oldest > start);

        Assert.Throws<OffsetOutOfRangeException>(() => MappedFileReader.Open(_temp.StorePath, QueueStart.FromOffset(start)));
        using MappedFileReader reader = MappedFileReader.Open(
            _temp.StorePath, QueueStart.FromOffset(start), CorruptionPolicy.Throw, OutOfRangePolicy.Earliest);
        List<(long, long)> skipped = [];
        reader.MessagesSkipped += (_, gap) => skipped.Add((gap.Offset, gap.NextOffset));

        Assert.True(reader.TryRead(out _));
        Assert.Equal(oldest, reader.MessageOffset);
        Assert.Equal([(start, oldest)], skipped);
    }
}

using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// What a fast producer leaves unwritten is bounded: complete segments begin their way to the disk before any flush, and nobody
/// waits for them.
/// </summary>
public sealed class WriteBackTests
{
    private const int Segment = 16 << 20;
    private const int Length = 1 << 20;
    private const int Piece = 4 << 20;
    private const int PiecesPerSegment = Segment / Piece;

    /// <summary>
    /// The flush lock is held for ever, as by a stopped process. A last roll that was noticed while a tick was due was forgotten:
    /// the tick could not flush, and the roll had written nothing back. A segment that a tick came into counted as written.
    /// </summary>
    [Theory]
    [InlineData(DurabilityLevel.PageCache, ProducerMode.Exclusive, 1000)]
    [InlineData(DurabilityLevel.Interval, ProducerMode.Shared, 1000)]
    [InlineData(DurabilityLevel.Interval, ProducerMode.Shared, 40)]
    public void Produce_ManyBytesWhileNobodyFlushes_WriteBackBeginsAndNothingIsConfirmed(
        DurabilityLevel level, ProducerMode mode, int interval)
    {
        using var folder = new TempStore();
        WatchedServices watched = WatchedServices.Use(portable: false);
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = folder.StorePath,
            SegmentSize = Segment,
            ProducerMode = mode,
            Durability = level,
            FlushInterval = TimeSpan.FromMilliseconds(interval),
        });
        using var words = new StoreWords(folder.StorePath);
        using PlatformLock? flush = words.TryLock(StoreNames.FlushLock, LockKind.Exclusive);
        Assert.NotNull(flush);
        byte[] message = new byte[Length];
        long end = FlushEngine.UnwrittenMax + (2 * Segment);
        while (queue.Producer.Offset < end)
            queue.Producer.Produce(message);

        // What is left is less than the limit. Often it is one segment less: a tick may come between two looks, or not.
        int covered = (int)((end - FlushEngine.UnwrittenMax) / Segment) + 1;
        int pieces = covered * PiecesPerSegment;
        Eventually.True(() => watched.StartedWriteBacks.Distinct().Count() >= pieces, "complete segments begin to be written");
        Assert.Equal(
            Enumerable.Range(0, pieces).Select(index => (
                StoreNames.Segment((long)(index / PiecesPerSegment) * Segment), (long)(index % PiecesPerSegment) * Piece)),
            watched.StartedWriteBacks.Distinct().Take(pieces));
        Assert.Equal(0, queue.GetInfo().ConfirmedOffset);
        Assert.Equal(0, watched.SegmentFlushes);
    }
}

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

    /// <summary>
    /// The flush lock is held for ever, as by a stopped process. A last roll that was noticed while a tick was due was forgotten:
    /// the tick could not flush, and the roll had written nothing back.
    /// </summary>
    [Theory]
    [InlineData(DurabilityLevel.PageCache, ProducerMode.Exclusive)]
    [InlineData(DurabilityLevel.Interval, ProducerMode.Shared)]
    public void Produce_ManyBytesWhileNobodyFlushes_WriteBackBeginsAndNothingIsConfirmed(
        DurabilityLevel level, ProducerMode mode)
    {
        using var folder = new TempStore();
        WatchedServices watched = WatchedServices.Use(portable: false);
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = folder.StorePath,
            SegmentSize = Segment,
            ProducerMode = mode,
            Durability = level,
        });
        using var words = new StoreWords(folder.StorePath);
        using PlatformLock? flush = words.TryLock(StoreNames.FlushLock, LockKind.Exclusive);
        Assert.NotNull(flush);
        byte[] message = new byte[Length];
        long end = FlushEngine.UnwrittenMax + (2 * Segment);
        while (queue.Producer.Offset < end)
            queue.Producer.Produce(message);

        long covered = FlushEngine.UnwrittenMax / Segment;
        Eventually.True(() => watched.StartedWriteBacks.Count >= covered, "complete segments begin to be written");
        Assert.Equal(
            Enumerable.Range(0, (int)covered).Select(index => StoreNames.Segment((long)index * Segment)),
            watched.StartedWriteBacks.Take((int)covered));
        Assert.Equal(0, queue.GetInfo().ConfirmedOffset);
        Assert.Equal(0, watched.SegmentFlushes);
    }
}

using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// Has the system begin to write complete segments to the disk as soon as there is enough of them, instead of at the next flush:
/// a producer that appends gigabytes a second would else fill memory with unwritten pages up to the system's own limit, at which
/// every process that writes anything is made to wait. Nothing waits here and nothing is promised; flushes follow as ever. Used
/// by the flushing thread alone.
/// </summary>
internal sealed unsafe class WriteBehind(LogStore store)
{
    /// <summary>Complete segments of so many bytes, at least one, are left unwritten.</summary>
    public const long UnwrittenMax = 64L * 1024 * 1024;

    /// <summary>Up to here write-back was begun.</summary>
    private long _startedTo;

    public void Start()
    {
        long tail = SharedWord.ReadAcquire(store.Control.TailHint); // P14 acquire: pairs with P14 full in SegmentRoller.
        long goal = store.Window.StartOf(tail);
        long from = Math.Max(_startedTo, store.Window.StartOf(store.ConfirmedOffset));
        if (goal - from < UnwrittenMax)
            return;
        store.Producers.Preparer?.ReleaseBelow(goal);
        try
        {
            for (long start = from; start < goal; start += store.Window.SegmentLength)
                store.Window.StartWriteBack(start);
        }
        catch (QueueDiskException)
        {
            // No descriptor left, say. It is a hint; a flush meets the same error where it counts.
        }

        _startedTo = goal;
    }
}

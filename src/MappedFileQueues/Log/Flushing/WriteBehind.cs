using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// Makes the system begin to write completed segments to disk as soon as there are enough of them, instead of at the next flush.
/// Otherwise a producer that appends gigabytes a second would fill memory with unwritten pages up to the system's limit, at which
/// every writing process has to wait. Nothing waits here and nothing is promised; flushes follow as usual. Only the flushing
/// thread uses it.
/// </summary>
internal sealed unsafe class WriteBehind(LogStore store)
{
    /// <summary>This many bytes of completed segments, at least one segment, are left unwritten.</summary>
    public const long UnwrittenMax = 64L * 1024 * 1024;

    /// <summary>The end of what the system has been asked to write.</summary>
    private long _startedTo;

    public void Start()
    {
        long tail = SharedWord.ReadAcquire(store.Control.TailHint); // P14 acquire: pairs with P14 full in SegmentRoller.
        long goal = store.Window.StartOf(tail);
        long from = Math.Max(_startedTo, store.Window.StartOf(store.ConfirmedOffset));
        if (goal - from < UnwrittenMax || store.KeepsLittle)
            return;
        store.Producers.Preparer?.ReleaseBelow(goal);
        try
        {
            for (long start = from; start < goal; start += store.Window.SegmentLength)
                store.Window.StartWriteBack(start);
        }
        catch (QueueDiskException)
        {
            // For example, no descriptor is left. This is only a hint; a flush meets the same error where it counts.
        }

        _startedTo = goal;
    }
}

using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// Deletes the oldest segments of a store, under `open`.
/// <code>
/// step                                              killed after it
/// 1 sync the cursors                                -
/// 2 raise low water: from here on no reader and     the segments are left over: the next deletion, or the
///   no consumer begins below it                     next lone opener's walk, meets them below low water
/// 3 read the cursors again; if one moved back       the same
///   meanwhile, low water goes back to it
/// 4 unlink the segments, the oldest first           the rest is left over
/// 5 sync the directory's entries                    a cut may bring segments back: whole ones, of this log
/// </code>
/// Step 1 comes first, because after a power cut an older cursor would stand below the log. Step 3 pairs with a consumer that
/// stores its cursor and then looks at low water: one of the two sees the other. A mapping outlives its file's name, so a reader
/// inside a deleted segment reads on to its end.
/// </summary>
internal sealed unsafe class SegmentTrimmer(LogStore store)
{
    /// <summary>The segments that may go, whole ones below an offset, the oldest first.</summary>
    public List<long> FindDeletable(long before, bool keepsUnconsumed)
    {
        long limit = LimitFor(before, keepsUnconsumed);
        return [.. OldestOffset.List(store.Directory, store.Meta).From(0).Where(start => start < limit)];
    }

    /// <summary>
    /// Deletes whole segments below an offset, as far as the checkpoint and the cursors allow it; returns the oldest offset that
    /// the log holds afterwards.
    /// </summary>
    public long Delete(long before, bool keepsUnconsumed)
    {
        using PlatformLock open = store.TakeOpenLock();
        return DeleteUnderOpen(before, keepsUnconsumed);
    }

    private long DeleteUnderOpen(long before, bool keepsUnconsumed)
    {
        List<long> old = FindDeletable(before, keepsUnconsumed);
        long lowWater = store.LowWater;
        if (old.Count == 0)
            return lowWater;
        long limit = Math.Max(lowWater, old[^1] + store.Meta.SegmentLength);
        if (keepsUnconsumed)
            SyncCursors();
        SetLowWater(limit);
        ProtocolSteps.Reach(ProtocolStep.LowWaterRaised);
        if (keepsUnconsumed && FindSlowest() is { } slowest && slowest < limit)
        {
            limit = Math.Max(lowWater, store.Window.StartOf(slowest));
            SetLowWater(limit);
        }

        foreach (long start in old.Where(start => start < limit))
        {
            store.Directory.Delete(StoreNames.Segment(start));
            ProtocolSteps.Reach(ProtocolStep.SegmentDeleted);
        }

        store.Directory.FlushEntries(StoreNames.CommitLog);
        return limit;
    }

    /// <summary>
    /// The start of the first segment that has to stay. A log that recovery found damaged stays whole: what lies before the damage
    /// may be all that is left to read.
    /// </summary>
    private long LimitFor(long before, bool keepsUnconsumed)
    {
        if (store.CorruptAt >= 0)
            return 0;
        // P14 acquire: a frame's start; pairs with P14 full in SegmentRoller.
        long limit = Math.Min(before, SharedWord.ReadAcquire(store.Control.TailHint));
        limit = Math.Min(limit, Math.Min(store.ConfirmedOffset, store.Checkpoints.Read()?.Offset ?? 0));
        if (keepsUnconsumed && FindSlowest() is { } slowest)
            limit = Math.Min(limit, slowest);
        return store.Window.StartOf(limit);
    }

    /// <summary>The lowest stored offset of all consumers; null when none has stored one.</summary>
    private long? FindSlowest()
    {
        long? slowest = null;
        foreach (string name in CursorFile.Names(store.Directory))
        {
            if (CursorFile.Read(store.Directory, name) is { } offset && (slowest is null || offset < slowest))
                slowest = offset;
        }

        return slowest;
    }

    private void SyncCursors()
    {
        foreach (string name in CursorFile.Names(store.Directory))
        {
            using PlatformFile? file = store.Directory.Open(name, FileOpening.ReadWrite);
            file?.Sync();
        }
    }

    private void SetLowWater(long offset)
    {
        // P16 full: before the cursors are read again; pairs with P16 acquire in SegmentRoller and LogConsumer.
        SharedWord.Exchange((ulong*)store.Control.LowWater, (ulong)offset);
        store.Control.SealColdBlock(store.Meta.StoreId);
    }
}

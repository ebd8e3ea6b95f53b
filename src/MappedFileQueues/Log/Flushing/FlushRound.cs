using System.Diagnostics;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// What the leader of a flush does under the lock: walk, mark, sync, confirm, checkpoint, and the consequences of a disk error.
/// </summary>
internal sealed unsafe class FlushRound(LogStore store, FlushFailure failure)
{
    public static readonly TimeSpan CheckpointInterval = TimeSpan.FromSeconds(1);

    private long _lastCheckpoint;

    /// <summary>How long this queue's own flushes took.</summary>
    public FlushTimes Times { get; } = new(store.Settings.TimeProvider);

    /// <summary>True if the last checkpoint of this queue is older than a second.</summary>
    public bool IsCheckpointDue => Stopwatch.GetElapsedTime(_lastCheckpoint) >= CheckpointInterval;

    /// <summary>A checkpoint at or below this offset would say nothing new.</summary>
    // P18 acquire: as it stood at opening; pairs with P18 full in Run.
    public long Checkpointed { get; private set; } = SharedWord.ReadAcquire(store.Control.Confirmed);

    /// <summary>One flush, under the lease: everything from the confirmed offset to the first hole or the limit.</summary>
    public void Run(long limit, bool checkpoint)
    {
        store.ThrowIfSeenReplaced();
        store.ThrowIfDamaged("confirmed");
        // P18 acquire: this leader alone raises it; pairs with P18 full below.
        long from = SharedWord.ReadAcquire(store.Control.Confirmed);
        long to = new FrameWalk(store).FindContiguousEnd(from, limit);
        if (to <= from)
            return;
        // P19 release: under the lease; pairs with P19 acquire in FlushLead.
        SharedWord.WriteRelease(store.Control.FlushTarget, to);
        ProtocolSteps.Reach(ProtocolStep.FlushMarked);
        if (PlantedFaults.Has(PlantedFault.CheckpointBeforeSync))
            WriteCheckpoint(to);
        long began = Stopwatch.GetTimestamp();
        Sync(from, to);
        Times.Note(began);
        ProtocolSteps.Reach(ProtocolStep.FlushSynced);
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        // P18 full: after the sync; pairs with P18 acquire in LogStore.
        SharedWord.RaiseTo(store.Control.Confirmed, to);
        ProtocolSteps.Reach(ProtocolStep.ConfirmedRaised);
        SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: done; pairs with P19 acquire in FlushLead.
        store.Window.ForgetFlushed(to);
        // Last, so that it is never above confirmed. No promise waits for it: recovery finds what was synced by its checksums.
        if (checkpoint)
            WriteCheckpoint(to);
    }

    /// <summary>Call it under the lease, after everything before the offset was synced.</summary>
    public void WriteCheckpoint(long offset)
    {
        // A flush that failed since the lease was taken may have been reported to other processes alone: no checkpoint follows
        // it.
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        try
        {
            store.Checkpoints.Write(
                offset, store.Control.Epoch, store.Control.BootId, store.Settings.TimeProvider.GetUtcNow());
            _lastCheckpoint = Stopwatch.GetTimestamp();
            Checkpointed = offset;
        }
        catch (QueueDiskException error)
        {
            GiveUp(error);
            throw;
        }
    }

    /// <summary>
    /// Syncs a segment in which nothing new is to be confirmed: room ahead of the tail, whose blocks count as written afterwards.
    /// </summary>
    public void SyncAhead(long start)
    {
        try
        {
            store.Window.FlushApart(start);
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            // The error that the kernel reports may concern messages.
            store.Poison();
            throw;
        }
    }

    private void Sync(long from, long to)
    {
        try
        {
            for (long start = store.Window.StartOf(from); start < to; start += store.Window.SegmentLength)
            {
                // P18 acquire: a removal raises it over what it removes meanwhile; pairs with P18 full in SegmentTrimmer.
                if (SharedWord.ReadAcquire(store.Control.Confirmed) >= start + store.Window.SegmentLength)
                    continue;
                store.Maker.EnsureDirectoryFlushed(start);
                store.Window.Flush(start, Math.Max(0, from - start), Math.Min(store.Window.SegmentLength, to - start));
            }
        }
        catch (QueueDiskException error)
        {
            GiveUp(error);
            throw;
        }
    }

    /// <summary>
    /// The kernel reports a failed write-back once and may drop the pages, so nothing after it can be confirmed truthfully. An
    /// error that came before the disk was asked (no descriptor left in this process, for example) concerns this caller alone.
    /// </summary>
    private void GiveUp(QueueDiskException error)
    {
        if (error.MayHaveLostData)
        {
            store.Poison();
            failure.Note(error, isAttempt: false);
            return;
        }

        SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: not died; pairs with P19 acquire in FlushLead.
    }
}

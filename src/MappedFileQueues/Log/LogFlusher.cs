using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>
/// Flushing. Inside a process one caller at a time leads; across processes the leader holds the kernel lock `locks/flush`,
/// with its target in the control page: who gets the lock and finds a target knows that its leader died in the middle. The
/// leader walks from the confirmed offset over published frames, syncs every segment in between (fdatasync covers other
/// processes' stores too), looks for poison again, then raises the confirmed offset for every process.
/// </summary>
internal sealed unsafe class LogFlusher(LogStore store, CheckpointFile checkpoints)
{
    private static readonly TimeSpan CheckpointInterval = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan HolePause = TimeSpan.FromMilliseconds(1);

    private readonly Lock _lock = new();
    private long _lastCheckpoint;

    /// <summary>Everything before it is on disk.</summary>
    // P18 acquire: pairs with P18 full in FlushUnderLease.
    public long ConfirmedOffset => SharedWord.ReadAcquire(store.Control.Confirmed);

    /// <summary>
    /// Flushes everything that was published before the call; returns the new confirmed offset. Waits for frames that living
    /// producers have claimed below that; those of dead ones become padding.
    /// </summary>
    public long Flush()
    {
        store.ThrowIfReplaced();
        store.ThrowIfOwnClaimIsOpen();
        long goal = new FlushWalk(store).FindPublishedEnd(ConfirmedOffset);
        while (true)
        {
            long confirmed = FlushOnce(goal);
            if (confirmed >= goal)
                return confirmed;
            store.ThrowIfClosing();
            Thread.Sleep(HolePause);
        }
    }

    /// <summary>
    /// Flushes what is contiguous up to the start of the segment that the tail is in, and writes a checkpoint there.
    /// </summary>
    public void FlushCompletedSegments()
    {
        long tail = SharedWord.ReadAcquire(store.Control.TailHint); // P14 acquire: pairs with P14 full in SegmentRoller.
        long goal = store.Window.StartOf(tail);
        // Unmapped before it is written: append_roll of the benchmark took twice the time while this was not done.
        store.Preparer?.ReleaseBelow(goal);
        if (goal <= ConfirmedOffset || !_lock.TryEnter())
            return;
        // Whoever is at it does the same, and the next roll comes here again. Waiting for a leader that stands still would make
        // the end of the last producer wait, which waits for this thread.
        try
        {
            using PlatformLock? lease = TryTakeLease();
            if (lease is not null)
                FlushUnderLease(goal, checkpointNow: true);
        }
        finally
        {
            _lock.Exit();
        }
    }

    /// <summary>Writes a checkpoint at an offset before which there is nothing to sync.</summary>
    public void CheckpointAt(long offset)
    {
        lock (_lock)
        {
            using PlatformLock lease = TakeLease();
            WriteCheckpoint(offset);
        }
    }

    private long FlushOnce(long goal)
    {
        lock (_lock)
        {
            if (ConfirmedOffset >= goal)
                return ConfirmedOffset;
            using PlatformLock lease = TakeLease();
            return FlushUnderLease(goal, checkpointNow: false);
        }
    }

    private long FlushUnderLease(long goal, bool checkpointNow)
    {
        var walk = new FlushWalk(store);
        long from = ConfirmedOffset;
        long to = walk.FindContiguousEnd(from, goal);
        if (to <= from)
            return from;
        // P19 release: under the lease; pairs with P19 acquire in TryTakeLease.
        SharedWord.WriteRelease(store.Control.FlushTarget, to);
        Sync(from, to);
        bool isDue = checkpointNow || walk.SawUnchecked || Stopwatch.GetElapsedTime(_lastCheckpoint) >= CheckpointInterval;
        if (isDue)
            WriteCheckpoint(to);
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        // P18 full: after the sync; pairs with P18 acquire in ConfirmedOffset.
        SharedWord.RaiseTo(store.Control.Confirmed, to);
        SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: done; pairs with P19 acquire in TryTakeLease.
        store.Window.ForgetFlushed(to);
        return to;
    }

    private PlatformLock TakeLease()
    {
        var pause = new SpinWait();
        while (true)
        {
            if (TryTakeLease() is { } lease)
                return lease;
            if (store.Wake.IsPoisoned)
                throw store.Poisoned();
            store.ThrowIfClosing();
            pause.SpinOnce();
        }
    }

    private PlatformLock? TryTakeLease()
    {
        PlatformLock? lease = store.Directory.TryLock(StoreNames.FlushLock, LockKind.Exclusive);
        if (lease is null)
            return null;
        // The last leader may have failed: the kernel told it alone, and what this one syncs would seem to succeed.
        if (store.Wake.IsPoisoned)
        {
            lease.Dispose();
            throw store.Poisoned();
        }

        // P19 acquire: a target without a leader: that one died, and an error may have been reported to it alone. Its range lies
        // above the confirmed offset, so this leader syncs all of it again; pairs with P19 release in FlushUnderLease.
        if (SharedWord.ReadAcquire(store.Control.FlushTarget) != 0)
            SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: pairs with P19 acquire above.
        return lease;
    }

    private void Sync(long from, long to)
    {
        try
        {
            for (long start = store.Window.StartOf(from); start < to; start += store.Window.SegmentLength)
            {
                store.Maker.EnsureDirectoryFlushed(start);
                store.Window.Flush(start);
            }
        }
        catch (QueueDiskException error)
        {
            GiveUp(error);
            throw;
        }
    }

    private void WriteCheckpoint(long offset)
    {
        // Whatever failed since the lease was taken may have been reported to others alone: nothing is written down after it.
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        try
        {
            checkpoints.Write(offset, store.Control.Epoch, store.Control.BootId);
            _lastCheckpoint = Stopwatch.GetTimestamp();
        }
        catch (QueueDiskException error)
        {
            GiveUp(error);
            throw;
        }
    }

    /// <summary>
    /// The kernel reports a failed write-back once and may drop the pages: nothing after it can be confirmed truthfully. What
    /// failed before the disk was asked (no descriptor left in this process, say) is this caller's trouble and nobody else's.
    /// </summary>
    private void GiveUp(QueueDiskException error)
    {
        if (error.MayHaveLostData)
        {
            store.Wake.Poison();
            PoisonFile.Make(store.Directory);
            return;
        }

        SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: not died; pairs with P19 acquire in TryTakeLease.
    }
}

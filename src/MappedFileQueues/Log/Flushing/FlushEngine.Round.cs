using System.Diagnostics;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Flushing;

// What the leader of a flush does under the lock, and the consequences of a disk error.
//
// leader                                            killed, or power lost, after it
// 1 walk to the end of what is published            nothing has changed
// 2 mark: the target of this flush                  the mark without a holder of the lock says that its leader died
// 3 sync every segment up to the target             confirmed is unchanged: the next leader syncs the range again
// 4 at times: write a checkpoint at the target      recovery's walk begins there, or at the one before
// 5 look for poison, raise durable (full)           recovery walks over the range by its checksums
// 6 clear the mark                                  the same
// 7 write entries of the index (IndexKeeper)        the index is behind
//
// The durable offset <= published holds at every instant. A checkpoint is above the durable offset only between steps 4 and 5,
// under the lock, and never above what was synced. Step 4 comes before step 5 so that a flush whose checkpoint fails confirms
// nothing: it throws, and the next flush in any process finds the queue poisoned. No message depends on step 4: it shortens the
// walk of the next opener, and damage below a checkpoint is never taken for the end of the log.
internal sealed unsafe partial class FlushEngine
{
    /// <summary>How often a checkpoint is written, at most.</summary>
    private static readonly TimeSpan CheckpointInterval = TimeSpan.FromSeconds(1);

    private readonly Lock _timesLock = new();
    private readonly IndexKeeper _index = new(store);
    private (long Count, TimeSpan Total, TimeSpan Longest, DateTimeOffset? Last) _times;
    private long _lastCheckpoint;

    /// <summary>A checkpoint at or below this offset would say nothing new.</summary>
    private long _checkpointed = store.ConfirmedOffset;

    /// <summary>How long the flushes took that this queue led. Any thread.</summary>
    public (long Count, TimeSpan Total, TimeSpan Longest, DateTimeOffset? Last) Times
    {
        get
        {
            lock (_timesLock)
                return _times;
        }
    }

    /// <summary>True if the last checkpoint of this queue is older than a second.</summary>
    private bool IsCheckpointDue => Stopwatch.GetElapsedTime(_lastCheckpoint) >= CheckpointInterval;

    /// <summary>True if the last checkpoint that this queue knows of covers everything confirmed.</summary>
    private bool IsCheckpointed => _store.ConfirmedOffset <= _checkpointed;

    /// <summary>
    /// Syncs a segment in which nothing new is to be confirmed: room ahead of the tail, whose blocks count as written afterwards.
    /// </summary>
    public void SyncAhead(long start)
    {
        try
        {
            _store.Window.FlushApart(start);
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            // The error that the kernel reports may concern messages.
            _store.Poison();
            throw;
        }
    }

    /// <summary>
    /// Writes a checkpoint at the durable offset if that has moved and no other thread or process is flushing. Recovery trusts
    /// what is before a checkpoint, and reports damage there instead of cutting it off.
    /// </summary>
    private void CheckpointDurable()
    {
        if (!IsCheckpointed && !_store.Wake.IsPoisoned)
            TryLeadOneRound(limit: 0, checkpoint: true);
    }

    /// <summary>One flush, under the lock: everything from the durable offset to the first hole or the limit.</summary>
    /// <param name="limit">The start of a segment; 0 for a checkpoint alone; null for everything that is published.</param>
    /// <param name="checkpoint">Whether it writes a checkpoint.</param>
    private void Round(long? limit, bool checkpoint)
    {
        // Before the end is looked up: whoever comes later may have published after it.
        if (limit != 0)
            _group.Close();
        long to = limit ?? new FrameWalk(_store).NowLimit;
        // P18 acquire: this leader, and a removal, alone raise it; pairs with P18 full in Confirm.
        long from = SharedWord.ReadAcquire(_store.Control.Durable);
        if (to > from)
            Confirm(from, to, checkpoint);
        else if (checkpoint && limit == 0)
            WriteCheckpoint(from, syncedTo: from);
    }

    private void Confirm(long from, long limit, bool checkpoint)
    {
        _store.ThrowIfSeenReplaced();
        _store.ThrowIfDamaged("confirmed");
        long to = _index.Walk(from, limit);
        Debug.Assert(from <= to && to <= limit, "Confirmed <= published <= the end of the tail's segment.");
        if (to <= from)
            return;
        // P19 release: under the lock; pairs with P19 acquire in TryTakeLease.
        SharedWord.WriteRelease(_store.Control.FlushTarget, to);
        ProtocolSteps.Reach(ProtocolStep.FlushMarked);
        if (PlantedFaults.Has(PlantedFault.CheckpointBeforeSync))
            WriteCheckpoint(to, syncedTo: from);
        long began = Stopwatch.GetTimestamp();
        Sync(from, to);
        NoteTime(Stopwatch.GetElapsedTime(began));
        ProtocolSteps.Reach(ProtocolStep.FlushSynced);
        if (checkpoint)
            WriteCheckpoint(to, syncedTo: to);
        if (_store.Wake.IsPoisoned)
            throw _store.Poisoned();
        // P18 full: after the sync; pairs with P18 acquire in LogStore.
        SharedWord.RaiseTo(_store.Control.Durable, to);
        ProtocolSteps.Reach(ProtocolStep.DurableRaised);
        SharedWord.WriteRelease(_store.Control.FlushTarget, 0); // P19 release: done; pairs with P19 acquire in TryTakeLease.
        _index.Note();
        _store.Window.ForgetFlushed(to);
    }

    private void Sync(long from, long to)
    {
        try
        {
            for (long start = _store.Window.StartOf(from); start < to; start += _store.Window.SegmentLength)
            {
                // P18 acquire: a removal raises it over what it removes meanwhile; pairs with P18 full in SegmentTrimmer.
                if (SharedWord.ReadAcquire(_store.Control.Durable) >= start + _store.Window.SegmentLength)
                    continue;
                _store.Maker.EnsureDirectoryFlushed(start);
                _store.Window.Flush(start, Math.Max(0, from - start), Math.Min(_store.Window.SegmentLength, to - start));
            }
        }
        catch (QueueDiskException error)
        {
            GiveUp(error);
            throw;
        }
    }

    private void WriteCheckpoint(long offset, long syncedTo)
    {
        Debug.Assert(
            offset <= syncedTo || PlantedFaults.Has(PlantedFault.CheckpointBeforeSync), "Checkpoint <= what was synced.");
        // A flush that failed since the lock was taken may have been reported to other processes alone: no checkpoint follows
        // it.
        if (_store.Wake.IsPoisoned)
            throw _store.Poisoned();
        try
        {
            _store.Checkpoints.Write(
                offset, _store.Control.Epoch, _store.Control.BootId, _store.Settings.TimeProvider.GetUtcNow());
            _lastCheckpoint = Stopwatch.GetTimestamp();
            _checkpointed = offset;
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
            _store.Poison();
            Failure.Note(error, isAttempt: false);
            return;
        }

        SharedWord.WriteRelease(_store.Control.FlushTarget, 0); // P19 release: alive; pairs with P19 acquire in TryTakeLease.
    }

    /// <summary>A sync has succeeded. This costs some 50 ns beside a sync of 80 us and more.</summary>
    private void NoteTime(TimeSpan elapsed)
    {
        DateTimeOffset now = _store.Settings.TimeProvider.GetUtcNow();
        lock (_timesLock)
        {
            TimeSpan longest = elapsed > _times.Longest ? elapsed : _times.Longest;
            _times = (_times.Count + 1, _times.Total + elapsed, longest, now);
        }
    }
}

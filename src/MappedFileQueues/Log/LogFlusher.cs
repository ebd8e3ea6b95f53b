using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log;

/// <summary>What a flush that nobody waits for has done.</summary>
internal enum BackgroundFlush
{
    /// <summary>Everything is on disk that could be.</summary>
    Nothing,

    /// <summary>Somebody else is flushing right now.</summary>
    Elsewhere,

    /// <summary>It has flushed.</summary>
    Done,
}

/// <summary>
/// Flushing. The leader (<see cref="FlushLead"/>) walks from the confirmed offset over published frames, syncs every segment in
/// between (fdatasync covers other processes' stores too), looks for poison again, then raises the confirmed offset for every
/// process. Everybody else who waits for a flush sleeps on the flush words of the control page until confirmed has reached what
/// he waits for, or nobody leads: then one of them does.
/// </summary>
internal sealed unsafe class LogFlusher(LogStore store, CheckpointFile checkpoints) : IDisposable
{
    private static readonly TimeSpan CheckpointInterval = TimeSpan.FromSeconds(1);

    /// <summary>
    /// How long the thread that waits for another process's leader sleeps at first: a dead one wakes nobody, so it looks itself.
    /// </summary>
    private static readonly TimeSpan LeasePauseFirst = TimeSpan.FromMilliseconds(2);

    /// <summary>How long a sleep before a claimed frame lasts: a dead owner wakes nobody.</summary>
    private static readonly TimeSpan HolePauseMax = TimeSpan.FromMilliseconds(2);

    /// <summary>How long the end of a queue waits for another process that is flushing.</summary>
    private static readonly TimeSpan EndWaitMax = TimeSpan.FromSeconds(1);

    private readonly FlushLead _lead = new(store);
    private long _lastCheckpoint;
    private long _checkpointed = SharedWord.ReadAcquire(store.Control.Confirmed); // P18 acquire: pairs with P18 full in Round.

    /// <summary>Everything before it is on disk.</summary>
    // P18 acquire: pairs with P18 full in Round.
    public long ConfirmedOffset => SharedWord.ReadAcquire(store.Control.Confirmed);

    /// <summary>
    /// Flushes everything that was published before the call; returns the new confirmed offset. Waits for frames that living
    /// producers have claimed below that; those of dead ones become padding.
    /// </summary>
    public long Flush()
    {
        store.ThrowIfReplaced();
        store.ThrowIfOwnClaimIsOpen();
        long goal = FindPublishedEnd();
        return WaitFor(goal, FlushPatience.Endless, checkpoints: true);
    }

    /// <summary>The end of what is published now.</summary>
    public long FindPublishedEnd() => new FlushWalk(store).FindPublishedEnd(ConfirmedOffset);

    /// <summary>
    /// Returns once everything before the goal, which was published before, is on disk, by this thread's flush or another's.
    /// </summary>
    public long WaitFor(long goal, in FlushPatience patience, bool checkpoints = false)
    {
        using CancellationTokenRegistration registration = patience.CancellationToken.CanBeCanceled
            ? patience.CancellationToken.UnsafeRegister(static wake => ((WakeSignal)wake!).Interrupt(), store.FlushWake)
            : default;
        while (true)
        {
            long confirmed = ConfirmedOffset;
            if (confirmed >= goal)
                return confirmed;
            if (store.Wake.IsPoisoned)
                throw store.Poisoned();
            patience.ThrowIfOver(store, goal);
            if (_lead.TryEnter())
            {
                try
                {
                    Lead(goal, patience, checkpoints);
                }
                finally
                {
                    _lead.Leave();
                }

                continue;
            }

            TimeSpan sleep = store.FlushWake.Prepare(out ulong sequence);
            if (ConfirmedOffset < goal && _lead.IsTaken && !store.Wake.IsPoisoned)
                store.FlushWake.Sleep(sequence, patience.Limit(sleep));
        }
    }

    /// <summary>
    /// Flushes what is published and contiguous, if there is anything and nobody else is at it. Never waits for a claim.
    /// </summary>
    public BackgroundFlush TryFlush()
    {
        if (!IsAnythingUnflushed())
            return BackgroundFlush.Nothing;
        if (!_lead.TryEnter())
            return BackgroundFlush.Elsewhere;
        try
        {
            if (!_lead.TryTakeLease())
                return BackgroundFlush.Elsewhere;
            RoundAndLetGo(new FlushWalk(store).NowLimit, IsCheckpointDue);
            return BackgroundFlush.Done;
        }
        finally
        {
            _lead.Leave();
        }
    }

    /// <summary>The last flush of a queue whose calls are all over; what cannot be flushed now is left to the others.</summary>
    public void FlushAtEnd()
    {
        long began = Stopwatch.GetTimestamp();
        while (TryFlush() == BackgroundFlush.Elsewhere && Stopwatch.GetElapsedTime(began) < EndWaitMax)
        {
            store.FlushWake.Prepare(out ulong sequence);
            if (IsAnythingUnflushed())
                store.FlushWake.Sleep(sequence, LeasePauseFirst);
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
        if (goal <= ConfirmedOffset || !_lead.TryEnter())
            return;
        // Whoever is at it does the same, and the next roll comes here again. Waiting for a leader that stands still would make
        // the end of the queue wait, which waits for this thread.
        try
        {
            if (_lead.TryTakeLease())
                RoundAndLetGo(goal, checkpoint: true);
        }
        finally
        {
            _lead.Leave();
        }
    }

    /// <summary>
    /// Writes a checkpoint at the confirmed offset when it moved and the last one is older than a second. Calls that wait for
    /// their own flush leave it to this.
    /// </summary>
    public void CheckpointIfDue()
    {
        if (!IsCheckpointDue || ConfirmedOffset <= _checkpointed || store.Wake.IsPoisoned || !_lead.TryEnter())
            return;
        try
        {
            if (!_lead.TryTakeLease())
                return;
            try
            {
                WriteCheckpoint(ConfirmedOffset);
            }
            finally
            {
                _lead.LetLeaseGo();
            }
        }
        finally
        {
            _lead.Leave();
        }
    }

    /// <summary>Writes a checkpoint at an offset before which there is nothing to sync.</summary>
    public void CheckpointAt(long offset)
    {
        EnterWithLease();
        try
        {
            WriteCheckpoint(offset);
        }
        finally
        {
            _lead.LetLeaseGo();
            _lead.Leave();
        }
    }

    /// <summary>
    /// Syncs a segment of which nothing new is to be confirmed: room ahead of the tail, whose blocks count as written afterwards.
    /// </summary>
    public void SyncAhead(long start)
    {
        try
        {
            store.Window.Flush(start, 0, 0);
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            // The kernel reported to our descriptor what may have happened to messages.
            Poison();
            throw;
        }
    }

    public void Dispose() => _lead.Dispose();

    private bool IsCheckpointDue => Stopwatch.GetElapsedTime(_lastCheckpoint) >= CheckpointInterval;

    private bool IsAnythingUnflushed()
    {
        long confirmed = ConfirmedOffset;
        return new FlushWalk(store).FindContiguousEnd(confirmed, confirmed + 1) > confirmed;
    }

    /// <summary>Rounds until the goal is confirmed; waits for another process's leader, and at claims of the living.</summary>
    private void Lead(long goal, in FlushPatience patience, bool checkpoints)
    {
        TimeSpan pause = LeasePauseFirst;
        while (true)
        {
            if (TryTakeLease(patience, ref pause))
            {
                RoundAndLetGo(new FlushWalk(store).NowLimit, checkpoints && IsCheckpointDue);
                if (ConfirmedOffset >= goal)
                    return;
                pause = LeasePauseFirst;
                WaitAtHole(patience);
            }

            if (ConfirmedOffset >= goal)
                return;
            if (store.Wake.IsPoisoned)
                throw store.Poisoned();
            store.ThrowIfClosing();
            patience.ThrowIfOver(store, goal);
        }
    }

    /// <summary>Takes the lock between processes, or sleeps once until its holder wakes those who wait.</summary>
    private bool TryTakeLease(in FlushPatience patience, ref TimeSpan pause)
    {
        if (_lead.TryTakeLease())
            return true;
        long confirmed = ConfirmedOffset;
        TimeSpan sleep = store.FlushWake.Prepare(out ulong sequence);
        if (_lead.TryTakeLease())
            return true;
        if (ConfirmedOffset == confirmed)
            store.FlushWake.Sleep(sequence, patience.Limit(pause < sleep ? pause : sleep));
        pause *= 2;
        return false;
    }

    /// <summary>
    /// A claim of the living is in the way: those who wait for less are told, then this thread waits as a reader does.
    /// </summary>
    private void WaitAtHole(in FlushPatience patience)
    {
        // P24 full: confirmed was raised before the flag is read; pairs with P24 acquire in FlushLead.
        Interlocked.MemoryBarrier();
        store.FlushWake.WakeIfAwaited();
        const int YieldsMax = 20;
        for (int i = 0; i < YieldsMax; i++)
        {
            if (IsAnythingUnflushed())
                return;
            Thread.Yield();
        }

        TimeSpan sleep = store.Wake.Prepare(out ulong sequence);
        if (!IsAnythingUnflushed())
            store.Wake.Sleep(sequence, patience.Limit(sleep < HolePauseMax ? sleep : HolePauseMax));
    }

    /// <summary>Takes both kinds of lead, waiting for them.</summary>
    private void EnterWithLease()
    {
        var pause = new SpinWait();
        while (!_lead.TryEnter())
            PauseOrThrow(ref pause);
        try
        {
            while (!_lead.TryTakeLease())
                PauseOrThrow(ref pause);
        }
        catch
        {
            _lead.Leave();
            throw;
        }
    }

    private void PauseOrThrow(ref SpinWait pause)
    {
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        store.ThrowIfClosing();
        pause.SpinOnce();
    }

    private void RoundAndLetGo(long limit, bool checkpoint)
    {
        try
        {
            Round(limit, checkpoint);
        }
        finally
        {
            _lead.LetLeaseGo();
        }
    }

    /// <summary>One flush, under the lease: everything from confirmed to the first hole or the limit.</summary>
    private void Round(long limit, bool checkpoint)
    {
        store.ThrowIfReplaced();
        var walk = new FlushWalk(store);
        long from = ConfirmedOffset;
        long to = walk.FindContiguousEnd(from, limit);
        if (to <= from)
            return;
        // P19 release: under the lease; pairs with P19 acquire in FlushLead.
        SharedWord.WriteRelease(store.Control.FlushTarget, to);
        ProtocolSteps.Reach(ProtocolStep.FlushMarked);
        Sync(from, to);
        ProtocolSteps.Reach(ProtocolStep.FlushSynced);
        if (checkpoint || walk.SawUnchecked)
            WriteCheckpoint(to);
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        // P18 full: after the sync; pairs with P18 acquire in ConfirmedOffset.
        SharedWord.RaiseTo(store.Control.Confirmed, to);
        ProtocolSteps.Reach(ProtocolStep.ConfirmedRaised);
        SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: done; pairs with P19 acquire in FlushLead.
        store.Window.ForgetFlushed(to);
    }

    private void Sync(long from, long to)
    {
        try
        {
            for (long start = store.Window.StartOf(from); start < to; start += store.Window.SegmentLength)
            {
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

    private void WriteCheckpoint(long offset)
    {
        // Whatever failed since the lease was taken may have been reported to others alone: nothing is written down after it.
        if (store.Wake.IsPoisoned)
            throw store.Poisoned();
        try
        {
            checkpoints.Write(offset, store.Control.Epoch, store.Control.BootId);
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
    /// The kernel reports a failed write-back once and may drop the pages: nothing after it can be confirmed truthfully. What
    /// failed before the disk was asked (no descriptor left in this process, say) is this caller's trouble and nobody else's.
    /// </summary>
    private void GiveUp(QueueDiskException error)
    {
        if (error.MayHaveLostData)
        {
            Poison();
            return;
        }

        SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: not died; pairs with P19 acquire in FlushLead.
    }

    private void Poison()
    {
        store.Wake.Poison();
        store.FlushWake.Interrupt();
        PoisonFile.Make(store.Directory);
    }
}

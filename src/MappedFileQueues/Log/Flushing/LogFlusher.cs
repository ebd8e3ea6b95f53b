using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Flushing;

/// <summary>The result of a flush for which no caller waits.</summary>
internal enum BackgroundFlush
{
    /// <summary>There was nothing that could be flushed.</summary>
    Nothing,

    /// <summary>Another thread or process is flushing right now.</summary>
    Elsewhere,

    /// <summary>It has flushed.</summary>
    Done,
}

/// <summary>
/// Flushing. The leader (<see cref="FlushLead"/>) walks from the confirmed offset over published frames, syncs every segment in
/// between (fdatasync covers other processes' stores too), checks for poison again, then raises the confirmed offset for every
/// process. All other threads that wait for a flush sleep until the confirmed offset has reached their goal or until no thread
/// leads; in that case one of them leads. Followers of this process's leader sleep on words of the process
/// (<see cref="FlushFollowers"/>); a thread that waits for another process's leader sleeps on the flush words of the control
/// page.
/// </summary>
internal sealed unsafe class LogFlusher : IDisposable
{
    /// <summary>
    /// How long a thread that waits for another process's leader sleeps at first. A dead leader wakes no waiter, so the thread
    /// looks itself.
    /// </summary>
    private static readonly TimeSpan LeasePauseFirst = TimeSpan.FromMilliseconds(2);

    /// <summary>
    /// The longest of these sleeps. Without a limit the growing pause overflowed after about five seconds of a leader that stood
    /// still.
    /// </summary>
    private static readonly TimeSpan LeasePauseMax = TimeSpan.FromMilliseconds(100);

    /// <summary>How long a sleep at a claimed frame lasts: a dead owner wakes no waiter.</summary>
    private static readonly TimeSpan HolePauseMax = TimeSpan.FromMilliseconds(2);

    /// <summary>How long the end of a queue waits for another process's flush.</summary>
    private static readonly TimeSpan EndWaitMax = TimeSpan.FromSeconds(1);

    /// <summary>The longest time that a leader yields to the callers it expects, however slow its disk is.</summary>
    private static readonly TimeSpan GatheringMax = TimeSpan.FromMilliseconds(1);

    private readonly LogStore _store;
    private readonly FlushLead _lead;
    private readonly FlushCompany _company = new(GatheringMax);
    private readonly FlushRound _round;

    public LogFlusher(LogStore store)
    {
        _store = store;
        _lead = new FlushLead(store);
        Failure = new FlushFailure(store);
        _round = new FlushRound(store, Failure);
    }

    /// <summary>Why background flushes fail, if they do.</summary>
    public FlushFailure Failure { get; }

    /// <inheritdoc cref="FlushRound.Times"/>
    public FlushTimes Times => _round.Times;

    /// <summary>
    /// Flushes everything that was published before the call; returns the new confirmed offset. Waits for frames below that end
    /// which living producers have claimed; claims of dead producers become padding.
    /// </summary>
    public long Flush()
    {
        _store.ThrowIfReplaced();
        _store.Producers.ThrowIfOwnClaimIsOpen();
        _store.ThrowIfDamaged("confirmed");
        long goal = FindPublishedEnd();
        return WaitFor(goal, FlushPatience.Endless, checkpoints: true);
    }

    /// <summary>The end of what is published now.</summary>
    public long FindPublishedEnd() => new FrameWalk(_store).FindPublishedEnd(_store.ConfirmedOffset);

    /// <summary>Why the next flush ends before it begins: a living producer's claim is there; null otherwise.</summary>
    public MappedFileQueueException? FindClaimInTheWay()
    {
        long confirmed = _store.ConfirmedOffset;
        var walk = new FrameWalk(_store);
        _ = walk.FindContiguousEnd(confirmed, confirmed + 1);
        if (walk.ClaimInTheWay == 0)
            return null;
        int slot = SlotLayout.Slot(FrameHeader.HighHalf(walk.ClaimInTheWay));
        return new MappedFileQueueException("A message that was begun and is not finished is in the way of all flushes, and what "
            + $"was appended after it is not on disk: offset={confirmed}, slot={slot}, "
            + $"processes={string.Join(',', _store.Directory.LockHolders(StoreNames.SlotLock(slot)))}, path={_store.Path}. "
            + "Let its process go on, or end it.");
    }

    /// <summary>True if the last checkpoint that this queue knows of covers everything confirmed.</summary>
    public bool IsCheckpointed => _store.ConfirmedOffset <= _round.Checkpointed;

    /// <summary>From now on a caller waits for a flush, whichever thread leads it.</summary>
    public void Expect()
    {
        _company.Come();
        _store.Producers.Preparer?.NoticeFlush();
    }

    /// <summary>
    /// Returns once everything before the goal is on disk, by this thread's flush or another's. The goal must already be
    /// published.
    /// </summary>
    public long WaitFor(long goal, in FlushPatience patience, bool checkpoints = false)
    {
        using CancellationTokenRegistration registration = patience.CancellationToken.CanBeCanceled
            ? patience.CancellationToken.UnsafeRegister(static flusher => ((LogFlusher)flusher!).Interrupt(), this)
            : default;
        if (_store.ConfirmedOffset < goal)
            Expect();
        bool isCalled = false;
        try
        {
            while (true)
            {
                long confirmed = _store.ConfirmedOffset;
                if (confirmed >= goal)
                    return confirmed;
                if (_store.Wake.IsPoisoned)
                    throw _store.Poisoned();
                patience.ThrowIfOver(_store, goal);
                // From here on the leader, this thread or another, calls the next one.
                isCalled = false;
                if (!TryLead(goal, patience, checkpoints))
                    isCalled = Follow(goal, patience);
            }
        }
        finally
        {
            if (isCalled && !_lead.IsTaken)
                _lead.Followers.CallNext();
        }
    }

    /// <summary>Makes all threads that wait for a flush look again: cancellation, Dispose.</summary>
    public void Interrupt()
    {
        _store.FlushWake.Interrupt();
        _lead.Followers.Interrupt();
    }

    /// <summary>
    /// Flushes what is published and contiguous, if there is anything and no other thread or process is flushing. Never waits for
    /// a claim.
    /// </summary>
    public BackgroundFlush TryFlush()
    {
        if (_store.CorruptAt >= 0 || !IsAnythingUnflushed())
            return BackgroundFlush.Nothing;
        if (!_lead.TryTakeWithLease())
            return BackgroundFlush.Elsewhere;
        try
        {
            Round(_round.IsCheckpointDue);
            return BackgroundFlush.Done;
        }
        finally
        {
            _lead.ReleaseWithLease();
        }
    }

    /// <summary>
    /// The last flush of a queue whose calls have all ended. What cannot be flushed now is left to the other processes.
    /// </summary>
    public void FlushAtEnd()
    {
        long began = Stopwatch.GetTimestamp();
        while (TryFlush() == BackgroundFlush.Elsewhere && Stopwatch.GetElapsedTime(began) < EndWaitMax)
        {
            _store.FlushWake.Prepare(out ulong sequence);
            if (IsAnythingUnflushed())
                _store.FlushWake.Sleep(sequence, LeasePauseFirst);
        }
    }

    /// <summary>
    /// Flushes what is contiguous up to the start of the segment that the tail is in, and writes a checkpoint there.
    /// </summary>
    public void FlushCompletedSegments()
    {
        long tail = SharedWord.ReadAcquire(_store.Control.TailHint); // P14 acquire: pairs with P14 full in SegmentRoller.
        long goal = _store.Window.StartOf(tail);
        // Unmapped before it is written: without this the benchmark's append_roll took twice the time.
        _store.Producers.Preparer?.ReleaseBelow(goal);
        // Another leader does the same, and the next roll comes here again. Waiting for a leader that stands still would hold up
        // the end of the queue, which waits for this thread.
        if (goal <= _store.ConfirmedOffset || !_lead.TryTakeWithLease())
            return;
        try
        {
            _lead.Followers.Close();
            _round.Run(goal, checkpoint: true);
        }
        finally
        {
            _lead.ReleaseWithLease();
        }
    }

    /// <summary>
    /// Writes a checkpoint at the confirmed offset if that has moved and the last checkpoint is older than a second. Calls that
    /// wait for their own flush leave the checkpoint to this method.
    /// </summary>
    public void CheckpointIfDue()
    {
        if (_round.IsCheckpointDue)
            CheckpointConfirmed();
    }

    /// <summary>
    /// Writes a checkpoint at the confirmed offset if that has moved and no other thread or process is flushing. Recovery trusts
    /// what lies before a checkpoint, and reports damage there instead of cutting it off.
    /// </summary>
    public void CheckpointConfirmed()
    {
        if (_store.ConfirmedOffset <= _round.Checkpointed || _store.Wake.IsPoisoned || !_lead.TryTakeWithLease())
            return;
        try
        {
            _round.WriteCheckpoint(_store.ConfirmedOffset);
        }
        finally
        {
            _lead.ReleaseWithLease();
        }
    }

    /// <inheritdoc cref="FlushRound.SyncAhead"/>
    public void SyncAhead(long start) => _round.SyncAhead(start);

    public void Dispose() => _lead.Dispose();

    private bool IsAnythingUnflushed()
    {
        long confirmed = _store.ConfirmedOffset;
        return new FrameWalk(_store).FindContiguousEnd(confirmed, confirmed + 1) > confirmed;
    }

    /// <summary>Leads until the goal is confirmed; false when another thread of this process leads.</summary>
    private bool TryLead(long goal, in FlushPatience patience, bool checkpoints)
    {
        if (!_lead.TryTake())
            return false;
        try
        {
            Lead(goal, patience, checkpoints);
            return true;
        }
        finally
        {
            _lead.Release();
        }
    }

    /// <summary>
    /// Sleeps once while another thread of this process leads; true when this thread may have been called to lead.
    /// </summary>
    private bool Follow(long goal, in FlushPatience patience)
    {
        FlushFollowers followers = _lead.Followers;
        long group = followers.Prepare(out uint word);
        bool isOver = _store.Wake.IsPoisoned || patience.CancellationToken.IsCancellationRequested;
        if (isOver || _store.ConfirmedOffset >= goal || !_lead.IsTaken || followers.IsServed(group))
            return false;
        followers.Sleep(group, word, patience.Limit(WakeSignal.SleepMax));
        return !followers.IsServed(group);
    }

    /// <summary>
    /// Flushes in rounds until the goal is confirmed. Waits for another process's leader, and for claims of living producers.
    /// </summary>
    private void Lead(long goal, in FlushPatience patience, bool checkpoints)
    {
        TimeSpan pause = LeasePauseFirst;
        while (true)
        {
            if (TryTakeLease(patience, ref pause))
            {
                RoundAndReleaseLease(checkpoints && _round.IsCheckpointDue);
                if (_store.ConfirmedOffset >= goal)
                    return;
                pause = LeasePauseFirst;
                WaitAtHole(patience);
            }

            if (_store.ConfirmedOffset >= goal)
                return;
            if (_store.Wake.IsPoisoned)
                throw _store.Poisoned();
            _store.ThrowIfClosing();
            patience.ThrowIfOver(_store, goal);
        }
    }

    /// <summary>Takes the lock between processes, or sleeps once until its holder wakes the waiters.</summary>
    private bool TryTakeLease(in FlushPatience patience, ref TimeSpan pause)
    {
        if (_lead.TryTakeLease())
            return true;
        long confirmed = _store.ConfirmedOffset;
        TimeSpan sleep = _store.FlushWake.Prepare(out ulong sequence);
        if (_lead.TryTakeLease())
            return true;
        if (_store.ConfirmedOffset == confirmed)
            _store.FlushWake.Sleep(sequence, patience.Limit(pause < sleep ? pause : sleep));
        pause = pause * 2 < LeasePauseMax ? pause * 2 : LeasePauseMax;
        return false;
    }

    /// <summary>
    /// A claim of a living producer is in the way. Wakes the callers whose messages lie before it, then waits as a reader does.
    /// </summary>
    private void WaitAtHole(in FlushPatience patience)
    {
        long served = _lead.Followers.EndServing();
        // P24 full: confirmed was raised before the flags are read; pairs with P24 acquire in FlushLead.
        Interlocked.MemoryBarrier();
        _lead.Followers.WakeServed(served);
        _store.FlushWake.WakeIfAwaited();
        const int YieldsMax = 20;
        for (int i = 0; i < YieldsMax; i++)
        {
            if (IsAnythingUnflushed())
                return;
            Thread.Yield();
        }

        TimeSpan sleep = _store.Wake.Prepare(out ulong sequence);
        if (!IsAnythingUnflushed())
            _store.Wake.Sleep(sequence, patience.Limit(sleep < HolePauseMax ? sleep : HolePauseMax));
    }

    /// <summary>Call it under the lease: flushes everything that is published.</summary>
    private void Round(bool checkpoint)
    {
        _lead.Followers.Close();
        _round.Run(new FrameWalk(_store).NowLimit, checkpoint);
        Failure.Clear();
    }

    private void RoundAndReleaseLease(bool checkpoint)
    {
        try
        {
            bool hasCompany = _company.Gather() > 1;
            long began = hasCompany ? Stopwatch.GetTimestamp() : 0;
            Round(checkpoint);
            if (hasCompany)
                _company.NoteFlush(Stopwatch.GetElapsedTime(began));
        }
        finally
        {
            _lead.ReleaseLease();
        }
    }
}

using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Flushing;

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
/// process. Everybody else who waits for a flush sleeps until confirmed has reached what he waits for, or nobody leads: then one
/// of them does. Followers of this process's leader sleep on words of the process (<see cref="FlushFollowers"/>), who waits for
/// another process's on the flush words of the control page.
/// </summary>
internal sealed unsafe class LogFlusher : IDisposable
{
    /// <summary>
    /// How long the thread that waits for another process's leader sleeps at first: a dead one wakes nobody, so it looks itself.
    /// </summary>
    private static readonly TimeSpan LeasePauseFirst = TimeSpan.FromMilliseconds(2);

    /// <summary>
    /// The longest of these sleeps. A pause that only grew overflowed after some five seconds of a leader that stood still.
    /// </summary>
    private static readonly TimeSpan LeasePauseMax = TimeSpan.FromMilliseconds(100);

    /// <summary>How long a sleep before a claimed frame lasts: a dead owner wakes nobody.</summary>
    private static readonly TimeSpan HolePauseMax = TimeSpan.FromMilliseconds(2);

    /// <summary>How long the end of a queue waits for another process that is flushing.</summary>
    private static readonly TimeSpan EndWaitMax = TimeSpan.FromSeconds(1);

    /// <summary>The longest that a leader yields to callers that it expects, whatever its disk takes.</summary>
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

    /// <summary>Why flushes that nobody waits for fail, if they do.</summary>
    public FlushFailure Failure { get; }

    /// <summary>
    /// Flushes everything that was published before the call; returns the new confirmed offset. Waits for frames that living
    /// producers have claimed below that; those of dead ones become padding.
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

    /// <summary>The last checkpoint that this queue knows of covers what is confirmed.</summary>
    public bool IsCheckpointed => _store.ConfirmedOffset <= _round.Checkpointed;

    /// <summary>A caller waits for a flush from now on, whoever leads it.</summary>
    public void Expect()
    {
        _company.Come();
        _store.Producers.Preparer?.NoticeFlush();
    }

    /// <summary>
    /// Returns once everything before the goal, which was published before, is on disk, by this thread's flush or another's.
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
                // From here on the leader calls the next one, this thread or another.
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

    /// <summary>Makes everybody who waits for a flush look again: cancellation, Dispose.</summary>
    public void Interrupt()
    {
        _store.FlushWake.Interrupt();
        _lead.Followers.Interrupt();
    }

    /// <summary>
    /// Flushes what is published and contiguous, if there is anything and nobody else is at it. Never waits for a claim.
    /// </summary>
    public BackgroundFlush TryFlush()
    {
        if (_store.CorruptAt >= 0 || !IsAnythingUnflushed())
            return BackgroundFlush.Nothing;
        if (!_lead.TryEnterWithLease())
            return BackgroundFlush.Elsewhere;
        try
        {
            Round(_round.IsCheckpointDue);
            return BackgroundFlush.Done;
        }
        finally
        {
            _lead.LeaveWithLease();
        }
    }

    /// <summary>
    /// The last flush of a queue whose calls are all over; what cannot be flushed now is left to the others.
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
        // Unmapped before it is written: append_roll of the benchmark took twice the time while this was not done.
        _store.Producers.Preparer?.ReleaseBelow(goal);
        // Whoever is at it does the same, and the next roll comes here again. Waiting for a leader that stands still would make
        // the end of the queue wait, which waits for this thread.
        if (goal <= _store.ConfirmedOffset || !_lead.TryEnterWithLease())
            return;
        try
        {
            _lead.Followers.Close();
            _round.Run(goal, checkpoint: true);
        }
        finally
        {
            _lead.LeaveWithLease();
        }
    }

    /// <summary>
    /// Writes a checkpoint at the confirmed offset when it moved and the last one is older than a second. Calls that wait for
    /// their own flush leave it to this.
    /// </summary>
    public void CheckpointIfDue()
    {
        if (_round.IsCheckpointDue)
            CheckpointConfirmed();
    }

    /// <summary>
    /// Writes a checkpoint at the confirmed offset, when it moved and nobody else is at it: recovery trusts what lies before
    /// it, and reports damage there instead of cutting it off.
    /// </summary>
    public void CheckpointConfirmed()
    {
        if (_store.ConfirmedOffset <= _round.Checkpointed || _store.Wake.IsPoisoned || !_lead.TryEnterWithLease())
            return;
        try
        {
            _round.WriteCheckpoint(_store.ConfirmedOffset);
        }
        finally
        {
            _lead.LeaveWithLease();
        }
    }

    /// <summary>Writes a checkpoint at an offset before which there is nothing to sync.</summary>
    public void CheckpointAt(long offset)
    {
        EnterWithLease();
        try
        {
            _round.WriteCheckpoint(offset);
        }
        finally
        {
            _lead.LeaveWithLease();
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
        if (!_lead.TryEnter())
            return false;
        try
        {
            Lead(goal, patience, checkpoints);
            return true;
        }
        finally
        {
            _lead.Leave();
        }
    }

    /// <summary>Sleeps once while another thread of this process leads; true when this one may have been called.</summary>
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

    /// <summary>Rounds until the goal is confirmed; waits for another process's leader, and at claims of the living.</summary>
    private void Lead(long goal, in FlushPatience patience, bool checkpoints)
    {
        TimeSpan pause = LeasePauseFirst;
        while (true)
        {
            if (TryTakeLease(patience, ref pause))
            {
                RoundAndLetGo(checkpoints && _round.IsCheckpointDue);
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

    /// <summary>Takes the lock between processes, or sleeps once until its holder wakes those who wait.</summary>
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
    /// A claim of the living is in the way: those who wait for less are told, then this thread waits as a reader does.
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

    /// <summary>Takes both kinds of lead, waiting for them; under `open`, for which others wait, so not for ever.</summary>
    private void EnterWithLease()
    {
        var pause = new LockWait.Pause(LockWait.Timeout);
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

    private void PauseOrThrow(ref LockWait.Pause pause)
    {
        if (_store.Wake.IsPoisoned)
            throw _store.Poisoned();
        _store.ThrowIfClosing();
        if (pause.IsOver)
            throw _store.Directory.InUse(
                StoreNames.FlushLock, "A flush of this store does not come to an end", "Look at that process.",
                waited: LockWait.Timeout);
        pause.Sleep();
    }

    /// <summary>Under the lease: flushes for everybody who has published.</summary>
    private void Round(bool checkpoint)
    {
        _lead.Followers.Close();
        _round.Run(new FrameWalk(_store).NowLimit, checkpoint);
        Failure.Clear();
    }

    private void RoundAndLetGo(bool checkpoint)
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
            _lead.LetLeaseGo();
        }
    }
}

using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

// Which thread leads a flush: one thread in each process (a word), and one of these among all processes (the kernel lock
// `locks/flush`, which the kernel frees when its holder dies). The lock's file stays open, so leading allocates nothing.
//
// leader                                            crash after it
// 1 take the word, then the lock                    the lock is free; the next leader's look finds it within 100 ms
// 2 one round (FlushEngine.Round.cs)                confirmed is unchanged or raised: both are true
// 3 release the lock, then the word (full barrier)  the same
// 4 read the waiters' flag, wake them               the flag stays up; a sleep lasts a second at most
//
// Threads that wait for the word are in a group (GroupCommitGate); the flag is for other processes, and for readers.
internal sealed unsafe partial class FlushEngine
{
    /// <summary>
    /// How long a thread that waits for another process's leader sleeps at first. A dead leader wakes no waiter, so the thread
    /// looks itself.
    /// </summary>
    private static readonly TimeSpan LeasePauseFirst = TimeSpan.FromMilliseconds(2);

    /// <summary>The longest of these sleeps. Without a limit the growing pause overflows while a leader is stopped.</summary>
    private static readonly TimeSpan LeasePauseMax = TimeSpan.FromMilliseconds(100);

    /// <summary>How long a sleep at a claimed frame lasts: a dead owner wakes no waiter.</summary>
    private static readonly TimeSpan ClaimPauseMax = TimeSpan.FromMilliseconds(2);

    private readonly RepeatedLock _lease = store.Directory.OpenRepeatedLock(StoreNames.FlushLock);
    private int _leadTaken;

    /// <summary>True while a thread of this process leads, or waits for the lock on behalf of all.</summary>
    // P24 acquire: after the flag was raised; pairs with P24 full in ReleaseLead.
    private bool IsLeadTaken => Volatile.Read(ref _leadTaken) != 0;

    /// <summary>Takes the lead of this process; false when another thread has it.</summary>
    // P24 full: one leader; pairs with P24 full in ReleaseLead.
    private bool TryTakeLead() => !IsLeadTaken && Interlocked.CompareExchange(ref _leadTaken, 1, 0) == 0;

    /// <summary>Releases the lead and wakes the waiters: their messages are durable, or one of them leads next.</summary>
    private void ReleaseLead()
    {
        long served = _group.EndServing();
        Interlocked.Exchange(ref _leadTaken, 0); // P24 full: before the flags are read; pairs with P24 acquire in IsLeadTaken.
        // First the thread whose flush can keep the disk busy.
        _group.CallNext();
        _group.WakeServed(served);
        _store.FlushWake.WakeIfAwaited();
    }

    /// <summary>
    /// Takes the lock between processes; false when another process leads. Only a thread that has this process's lead may call
    /// it.
    /// </summary>
    private bool TryTakeLease()
    {
        try
        {
            if (!_lease.TryTake())
                return false;
        }
        catch (QueueDiskException)
        {
            // The lock's folder is gone, perhaps with the store.
            _store.ThrowIfReplaced();
            _store.ThrowIfLocksRemoved();
            throw;
        }

        // The last leader may have failed: only that process heard of the error, and what this leader syncs would seem to
        // succeed.
        if (_store.Wake.IsPoisoned)
        {
            _lease.Release();
            throw _store.Poisoned();
        }

        // P19 acquire: a target without a leader means that its leader died, and an error may have been reported to that process
        // alone. The target's range is above the durable offset, so this leader syncs all of it again; pairs with P19 release
        // in Confirm.
        if (SharedWord.ReadAcquire(_store.Control.FlushTarget) != 0)
            SharedWord.WriteRelease(_store.Control.FlushTarget, 0); // P19 release: pairs with P19 acquire above.
        return true;
    }

    /// <summary>
    /// Takes both without waiting and makes one <see cref="Round"/>; false when another thread or process leads.
    /// </summary>
    private bool TryLeadOneRound(long? limit, bool checkpoint)
    {
        if (!TryTakeBoth())
            return false;
        try
        {
            Round(limit, checkpoint);
            return true;
        }
        finally
        {
            ReleaseBoth();
        }
    }

    /// <summary>Takes the lead and the lock without waiting; false when another thread or process leads.</summary>
    private bool TryTakeBoth()
    {
        if (!TryTakeLead())
            return false;
        bool isTaken = false;
        try
        {
            return isTaken = TryTakeLease();
        }
        finally
        {
            if (!isTaken)
                ReleaseLead();
        }
    }

    private void ReleaseBoth()
    {
        try
        {
            _lease.Release();
        }
        finally
        {
            ReleaseLead();
        }
    }

    /// <summary>Leads until the goal is durable; false when another thread of this process leads.</summary>
    private bool TryLead(long goal, in CallDeadline deadline, bool checkpoints)
    {
        if (!TryTakeLead())
            return false;
        try
        {
            Lead(goal, deadline, checkpoints);
            return true;
        }
        finally
        {
            ReleaseLead();
        }
    }

    /// <summary>
    /// Flushes in rounds until the goal is durable. Waits for another process's leader, and for claims of living producers.
    /// </summary>
    private void Lead(long goal, in CallDeadline deadline, bool checkpoints)
    {
        TimeSpan pause = LeasePauseFirst;
        while (true)
        {
            if (TryTakeLeaseOrSleep(deadline, ref pause))
            {
                RoundForGroup(checkpoints && IsCheckpointDue);
                if (_store.ConfirmedOffset >= goal)
                    return;
                pause = LeasePauseFirst;
                ThrowIfVanished(goal);
                WaitAtClaim(deadline);
            }

            if (_store.ConfirmedOffset >= goal)
                return;
            if (_store.Wake.IsPoisoned)
                throw _store.Poisoned();
            _store.ThrowIfClosing();
            ThrowIfOver(deadline, goal);
        }
    }

    /// <summary>
    /// The goal is published, so what comes before it is not free: a round that ended at a free place met a header that damage
    /// has zeroed, and no later round would come further.
    /// </summary>
    private void ThrowIfVanished(long goal)
    {
        long confirmed = _store.ConfirmedOffset;
        // Another process may have led since: after the goal a free place is the tail.
        if (confirmed >= goal)
            return;
        FrameWalk walk = new(_store);
        // What a removal has overtaken is confirmed at its end.
        if (walk.FindContiguousEnd(confirmed, confirmed + 1) == confirmed && walk.ClaimInTheWay == 0
            && confirmed >= _store.LogStart && confirmed == _store.ConfirmedOffset)
            throw _store.Corrupt(confirmed, 0);
    }

    /// <summary>Takes the lock between processes, or sleeps once until its holder wakes the waiters.</summary>
    private bool TryTakeLeaseOrSleep(in CallDeadline deadline, ref TimeSpan pause)
    {
        if (TryTakeLease())
            return true;
        long confirmed = _store.ConfirmedOffset;
        TimeSpan sleep = _store.FlushWake.Prepare(out ulong sequence);
        if (TryTakeLease())
            return true;
        if (_store.ConfirmedOffset == confirmed)
            _store.FlushWake.Sleep(sequence, deadline.Limit(pause < sleep ? pause : sleep));
        pause = pause * 2 < LeasePauseMax ? pause * 2 : LeasePauseMax;
        return false;
    }

    /// <summary>One round for everything that is published and for all callers that come in time; releases the lock.</summary>
    private void RoundForGroup(bool checkpoint)
    {
        try
        {
            bool hasCompany = _group.Gather() > 1;
            long began = hasCompany ? Stopwatch.GetTimestamp() : 0;
            long confirmed = _store.ConfirmedOffset;
            Round(limit: null, checkpoint);
            // A round that ended at an open claim has flushed nothing: what is told of that stays.
            if (_store.ConfirmedOffset > confirmed)
                Failure.Clear();
            if (hasCompany)
                _group.NoteFlush(Stopwatch.GetElapsedTime(began));
        }
        finally
        {
            _lease.Release();
        }
    }

    /// <summary>
    /// A claim of a living producer is in the way. Wakes the callers whose messages are before it, then waits as a reader does.
    /// </summary>
    private void WaitAtClaim(in CallDeadline deadline)
    {
        long served = _group.EndServing();
        // P24 full: confirmed was raised before the flags are read; pairs with P24 acquire in IsLeadTaken.
        Interlocked.MemoryBarrier();
        _group.WakeServed(served);
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
            _store.Wake.Sleep(sequence, deadline.Limit(sleep < ClaimPauseMax ? sleep : ClaimPauseMax));
    }
}

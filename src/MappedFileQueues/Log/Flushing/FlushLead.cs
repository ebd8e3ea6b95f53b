using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// Who leads a flush: one thread in this process (a word), and of these one in all processes (the kernel lock `locks/flush`,
/// which the kernel frees when its holder dies). The file of the lock stays open, so leading allocates nothing.
/// <code>
/// leader                                            crash after it
/// 1 take the word, then the lock                    the lock is free; the next leader's look finds it within 100 ms
/// 2 mark: the target of this flush                  the mark without a holder says that its leader died
/// 3 sync, raise confirmed, clear the mark           confirmed is what it was, or raised: both are true
/// 4 let the lock go, then the word (full fence)     the same
/// 5 read the flag of those who wait, wake them      the flag stays up; a sleep lasts 100 ms at most
/// </code>
/// Those who wait for the word are <see cref="Followers"/>; the flag is for other processes, and for readers.
/// </summary>
internal sealed unsafe class FlushLead(LogStore store) : IDisposable
{
    private readonly RepeatedLock _lease = store.Directory.OpenRepeatedLock(StoreNames.FlushLock);
    private int _taken;

    /// <summary>The threads of this process that wait for a leader among them.</summary>
    public FlushFollowers Followers { get; } = new(store.Os);

    /// <summary>True while some thread of this process leads, or waits for the lock on behalf of all.</summary>
    // P24 acquire: after the flag was raised; pairs with P24 full in Leave.
    public bool IsTaken => Volatile.Read(ref _taken) != 0;

    /// <summary>Takes the lead of this process; false when another thread has it.</summary>
    // P24 full: one leader; pairs with P24 full in Leave.
    public bool TryEnter() => !IsTaken && Interlocked.CompareExchange(ref _taken, 1, 0) == 0;

    /// <summary>Gives the lead up and wakes those who wait: they are confirmed, or one of them leads next.</summary>
    public void Leave()
    {
        long served = Followers.EndServing();
        Interlocked.Exchange(ref _taken, 0); // P24 full: before the flags are read; pairs with P24 acquire in IsTaken.
        // First the one whose flush the disk can begin with.
        Followers.CallNext();
        Followers.WakeServed(served);
        store.FlushWake.WakeIfAwaited();
    }

    /// <summary>Takes the lock between processes; false when another process leads. Only with the lead of this one.</summary>
    public bool TryTakeLease()
    {
        if (!TryTakeLock())
            return false;
        // The last leader may have failed: the kernel told it alone, and what this one syncs would seem to succeed.
        if (store.Wake.IsPoisoned)
        {
            _lease.LetGo();
            throw store.Poisoned();
        }

        // P19 acquire: a target without a leader: that one died, and an error may have been reported to it alone.
        // Its range lies above the confirmed offset, so this leader syncs all of it again; pairs with P19 release in
        // FlushRound.
        if (SharedWord.ReadAcquire(store.Control.FlushTarget) != 0)
            SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: pairs with P19 acquire above.
        return true;
    }

    /// <summary>Takes both without waiting; false when another thread or process leads.</summary>
    public bool TryEnterWithLease()
    {
        if (!TryEnter())
            return false;
        bool isTaken = false;
        try
        {
            return isTaken = TryTakeLease();
        }
        finally
        {
            if (!isTaken)
                Leave();
        }
    }

    /// <summary>Gives both up.</summary>
    public void LeaveWithLease()
    {
        try
        {
            LetLeaseGo();
        }
        finally
        {
            Leave();
        }
    }

    /// <summary>Lets the lock between processes go.</summary>
    public void LetLeaseGo() => _lease.LetGo();

    public void Dispose() => _lease.Dispose();

    private bool TryTakeLock()
    {
        try
        {
            return _lease.TryTake();
        }
        catch (QueueDiskException)
        {
            // The file of the lock is gone, say, because the store is.
            store.ThrowIfReplaced();
            throw;
        }
    }
}

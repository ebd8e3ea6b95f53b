using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// Decides which thread leads a flush: one thread in each process (a word), and one of these among all processes (the kernel lock
/// `locks/flush`, which the kernel frees when its holder dies). The lock's file stays open, so leading allocates nothing.
/// <code>
/// leader                                            crash after it
/// 1 take the word, then the lock                    the lock is free; the next leader's look finds it within 100 ms
/// 2 mark: the target of this flush                  the mark without a holder says that its leader died
/// 3 sync, raise confirmed, clear the mark           confirmed is unchanged or raised: both are true
/// 4 release the lock, then the word (full fence)    the same
/// 5 read the waiters' flag, wake them               the flag stays up; a sleep lasts a second at most
/// </code>
/// Threads that wait for the word are <see cref="Followers"/>; the flag is for other processes, and for readers.
/// </summary>
internal sealed unsafe class FlushLead(LogStore store) : IDisposable
{
    private readonly RepeatedLock _lease = store.Directory.OpenRepeatedLock(StoreNames.FlushLock);
    private int _taken;

    /// <summary>The threads of this process that wait while another of its threads leads.</summary>
    public FlushFollowers Followers { get; } = new(store.Os);

    /// <summary>True while a thread of this process leads, or waits for the lock on behalf of all.</summary>
    // P24 acquire: after the flag was raised; pairs with P24 full in Release.
    public bool IsTaken => Volatile.Read(ref _taken) != 0;

    /// <summary>Takes the lead of this process; false when another thread holds it.</summary>
    // P24 full: one leader; pairs with P24 full in Release.
    public bool TryTake() => !IsTaken && Interlocked.CompareExchange(ref _taken, 1, 0) == 0;

    /// <summary>Releases the lead and wakes the waiters: their messages are confirmed, or one of them leads next.</summary>
    public void Release()
    {
        long served = Followers.EndServing();
        Interlocked.Exchange(ref _taken, 0); // P24 full: before the flags are read; pairs with P24 acquire in IsTaken.
        // First the thread whose flush can keep the disk busy.
        Followers.CallNext();
        Followers.WakeServed(served);
        store.FlushWake.WakeIfAwaited();
    }

    /// <summary>
    /// Takes the lock between processes; false when another process leads. Only a thread that holds this process's lead may call
    /// it.
    /// </summary>
    public bool TryTakeLease()
    {
        if (!TryTakeLock())
            return false;
        // The last leader may have failed: only that process heard of the error, and what this leader syncs would seem to
        // succeed.
        if (store.Wake.IsPoisoned)
        {
            _lease.Release();
            throw store.Poisoned();
        }

        // P19 acquire: a target without a leader means that its leader died, and an error may have been reported to that process
        // alone. The target's range lies above the confirmed offset, so this leader syncs all of it again; pairs with P19 release
        // in FlushRound.
        if (SharedWord.ReadAcquire(store.Control.FlushTarget) != 0)
            SharedWord.WriteRelease(store.Control.FlushTarget, 0); // P19 release: pairs with P19 acquire above.
        return true;
    }

    /// <summary>Takes both without waiting; false when another thread or process leads.</summary>
    public bool TryTakeWithLease()
    {
        if (!TryTake())
            return false;
        bool isTaken = false;
        try
        {
            return isTaken = TryTakeLease();
        }
        finally
        {
            if (!isTaken)
                Release();
        }
    }

    /// <summary>Releases both.</summary>
    public void ReleaseWithLease()
    {
        try
        {
            ReleaseLease();
        }
        finally
        {
            Release();
        }
    }

    /// <summary>Releases the lock between processes.</summary>
    public void ReleaseLease() => _lease.Release();

    public void Dispose() => _lease.Dispose();

    private bool TryTakeLock()
    {
        try
        {
            return _lease.TryTake();
        }
        catch (QueueDiskException)
        {
            // The lock's folder is gone, perhaps with the store.
            store.ThrowIfReplaced();
            store.ThrowIfLocksRemoved();
            throw;
        }
    }
}

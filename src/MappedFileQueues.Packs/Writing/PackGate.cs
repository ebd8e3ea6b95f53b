using System.Diagnostics;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// The lock for changes of a pack's tail, sequence or index. A thread whose puts wait for nothing else takes it a few hundred
/// thousand times a second, and takes it again before a sleeping thread is awake. With a plain <see cref="Lock"/> the sleeping
/// thread then waits for 100 ms, at each step of a durable put, a flush or a compaction. So threads of the latter kind announce
/// that they wait, and puts give way. <see cref="Thread.Interrupt"/> does not end their wait: a compaction that stopped between
/// two entries would leave two volumes for one number.
/// </summary>
internal sealed class PackGate
{
    /// <summary>
    /// Longer than a thread takes to wake up (50 us here, some ms on a busy machine), but short enough that a waiting thread that
    /// does not run holds up no puts.
    /// </summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(1);

    private readonly object _lock = new();
    private int _waiting;

    /// <summary>Takes the lock for a thread that takes it rarely. Disposing the scope releases it.</summary>
    public UninterruptedLock Take()
    {
        Interlocked.Increment(ref _waiting);
        try
        {
            return new UninterruptedLock(_lock);
        }
        finally
        {
            Interlocked.Decrement(ref _waiting);
        }
    }

    /// <summary>
    /// Takes the lock for a put that the next put may follow at once. Threads that wait in <see cref="Take"/> go first.
    /// </summary>
    public UninterruptedLock TakeAfterOthers()
    {
        if (Volatile.Read(ref _waiting) > 0)
            StandBack();
        return new UninterruptedLock(_lock);
    }

    private void StandBack()
    {
        long start = Stopwatch.GetTimestamp();
        do
            Thread.Yield();
        while (Volatile.Read(ref _waiting) > 0 && Stopwatch.GetElapsedTime(start) < s_patience);
    }
}

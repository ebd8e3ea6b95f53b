using System.Diagnostics;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// A lock for whoever changes tail, sequence or index of a pack. A thread whose puts wait for nothing else takes it a few hundred
/// thousand times a second, and comes back before a sleeping thread is awake: <see cref="Lock"/> lets that one wait for 100 ms
/// then, at each step of a durable put, a flush or a compaction. So those say that they wait, and puts stand back.
/// </summary>
internal sealed class PackGate
{
    /// <summary>
    /// Longer than a thread takes to wake up (50 us here, some ms on a busy machine), and short enough that puts are not held up
    /// by a waiting thread that does not run.
    /// </summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(1);

    private readonly Lock _lock = new();
    private int _waiting;

    /// <summary>For whoever comes seldom. Held until the scope is disposed.</summary>
    public Lock.Scope Take()
    {
        Interlocked.Increment(ref _waiting);
        try
        {
            return _lock.EnterScope();
        }
        finally
        {
            Interlocked.Decrement(ref _waiting);
        }
    }

    /// <summary>For a put that may be followed by the next one at once: those who wait in <see cref="Take"/> go first.</summary>
    public Lock.Scope TakeAfterOthers()
    {
        if (Volatile.Read(ref _waiting) > 0)
            StandBack();
        return _lock.EnterScope();
    }

    private void StandBack()
    {
        long start = Stopwatch.GetTimestamp();
        do
            Thread.Yield();
        while (Volatile.Read(ref _waiting) > 0 && Stopwatch.GetElapsedTime(start) < s_patience);
    }
}

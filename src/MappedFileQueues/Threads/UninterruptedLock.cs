namespace MappedFileQueues.Threads;

/// <summary>
/// A lock for work that <see cref="Thread.Interrupt"/> must not end half-way, because other threads wait for its end. The
/// interrupt counts again at the thread's next wait after it.
/// </summary>
internal ref struct UninterruptedLock
{
    private readonly object _gate;
    private bool _wasInterrupted;

    public UninterruptedLock(object gate)
    {
        _gate = gate;
        for (bool isTaken = false; !isTaken;)
        {
            try
            {
                Monitor.Enter(gate, ref isTaken);
            }
            catch (ThreadInterruptedException)
            {
                _wasInterrupted = true;
            }
        }
    }

    /// <summary>As <see cref="Monitor.Wait(object)"/>, but for a loop: an interrupt ends the wait as a pulse does.</summary>
    public void Wait()
    {
        try
        {
            Monitor.Wait(_gate);
        }
        catch (ThreadInterruptedException)
        {
            _wasInterrupted = true;
        }
    }

    public readonly void Dispose()
    {
        Monitor.Exit(_gate);
        if (_wasInterrupted)
            Thread.CurrentThread.Interrupt();
    }
}

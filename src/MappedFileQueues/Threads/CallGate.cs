namespace MappedFileQueues.Threads;

/// <summary>
/// Counts the calls under way on a queue that neither a producer's lane nor a consumer's reader guards (flushing, opening,
/// information), so that the queue's Dispose unmaps nothing under them. These calls are rare, so the cost of an interlocked pair
/// per call is negligible.
/// </summary>
internal sealed class CallGate
{
    private const int Closed = int.MinValue;

    private int _calls;

    /// <summary>Marks a call until the result is disposed.</summary>
    /// <exception cref="ObjectDisposedException">The gate is closed.</exception>
    public Call Begin()
    {
        if (Interlocked.Increment(ref _calls) > 0)
            return new Call(this);
        Interlocked.Decrement(ref _calls);
        throw new ObjectDisposedException(PublicNames.Queue);
    }

    /// <summary>Refuses new calls and waits for those under way. Call it once.</summary>
    public void Close()
    {
        Interlocked.Add(ref _calls, Closed);
        Uninterrupted.Run(AwaitCalls);
    }

    private void AwaitCalls()
    {
        var spinner = new SpinWait();
        while (Volatile.Read(ref _calls) != Closed)
            spinner.SpinOnce();
    }

    /// <summary>A call under way.</summary>
    public readonly struct Call(CallGate gate) : IDisposable
    {
        public void Dispose() => Interlocked.Decrement(ref gate._calls);
    }
}

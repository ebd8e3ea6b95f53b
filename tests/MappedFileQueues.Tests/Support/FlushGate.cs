namespace MappedFileQueues.Tests.Support;

/// <summary>Holds every flush of the log up until it is opened; so a test knows who waits for what.</summary>
internal sealed class FlushGate : IDisposable
{
    private readonly ManualResetEventSlim _open = new(false);
    private int _waiting;

    public FlushGate(WatchedServices services) => services.OnSegmentFlush = Wait;

    /// <summary>What the flushes throw once the gate is open; null for none.</summary>
    public Func<Exception>? Error { get; set; }

    /// <summary>Returns when a flush is at the gate.</summary>
    public void WaitForFlush() => Eventually.True(() => Volatile.Read(ref _waiting) > 0, "a flush stands at the gate");

    public void Open() => _open.Set();

    public void Dispose() => _open.Set();

    private void Wait(string name)
    {
        Interlocked.Increment(ref _waiting);
        Assert.True(_open.Wait(Eventually.DefaultDeadline), "the gate was never opened");
        Interlocked.Decrement(ref _waiting);
        if (Error is { } error)
            throw error();
    }
}

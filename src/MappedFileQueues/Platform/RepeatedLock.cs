namespace MappedFileQueues.Platform;

/// <summary>
/// An exclusive kernel lock that one object takes and releases again and again. Where the system allows it, the file stays open
/// in between. This implementation has only the BCL and opens the file each time it takes the lock. One thread at a time may use
/// it.
/// </summary>
internal class RepeatedLock(HeldDirectory directory, string name) : IDisposable
{
    private PlatformLock? _held;

    /// <summary>Takes the lock without waiting; false when another open holds it.</summary>
    public virtual bool TryTake()
    {
        _held = directory.TryLock(name, LockKind.Exclusive);
        return _held is not null;
    }

    /// <summary>Releases the lock.</summary>
    public virtual void Release()
    {
        _held?.Dispose();
        _held = null;
    }

    /// <summary>Releases the lock and closes the file.</summary>
    public virtual void Dispose() => Release();
}

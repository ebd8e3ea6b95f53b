namespace MappedFileQueues.Platform;

/// <summary>
/// An exclusive kernel lock that one object takes and lets go again and again. Where the system allows it the file stays open
/// in between; here, by the BCL's means, each taking opens it anew. For one thread at a time.
/// </summary>
internal class RepeatedLock(HeldDirectory directory, string name) : IDisposable
{
    private PlatformLock? _held;

    /// <summary>Takes the lock without waiting; false when another holds it.</summary>
    public virtual bool TryTake()
    {
        _held = directory.TryLock(name, LockKind.Exclusive);
        return _held is not null;
    }

    /// <summary>Lets the lock go.</summary>
    public virtual void LetGo()
    {
        _held?.Dispose();
        _held = null;
    }

    /// <summary>Lets the lock go, and the file.</summary>
    public virtual void Dispose() => LetGo();
}

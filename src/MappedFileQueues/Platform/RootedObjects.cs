namespace MappedFileQueues.Platform;

/// <summary>
/// Objects that nobody may finalize while they are in use, whoever forgets to dispose them: the finalizer of a handle inside
/// would unmap, or let a lock go, behind the back of those that are still at work. Any thread.
/// </summary>
internal sealed class RootedObjects
{
    private readonly Lock _lock = new();

    // Of objects, because for that type the runtime has code ready: nothing of it is compiled when a store is opened.
    private readonly HashSet<object> _objects = [];

    public void Add(object used)
    {
        lock (_lock)
            _objects.Add(used);
    }

    /// <summary>True for the first call alone.</summary>
    public bool TryRemove(object used)
    {
        lock (_lock)
            return _objects.Remove(used);
    }
}

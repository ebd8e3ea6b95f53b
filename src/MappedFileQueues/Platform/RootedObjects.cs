using MappedFileQueues.Threads;

namespace MappedFileQueues.Platform;

/// <summary>
/// Keeps objects in use from being finalized when nothing disposes them: the finalizer of a handle inside them would unmap memory
/// or release a lock that is still in use. Any thread. An interrupt waits: all stores of the process meet at this lock, and a
/// Dispose that it ended kept the file lock for good.
/// </summary>
internal sealed class RootedObjects
{
    private readonly object _gate = new();

    // The type argument is object because the runtime has code for it ready: nothing of it is compiled when a store is opened.
    private readonly HashSet<object> _objects = [];

    public void Add(object used)
    {
        using (new UninterruptedLock(_gate))
            _objects.Add(used);
    }

    /// <summary>True only for the first call.</summary>
    public bool TryRemove(object used)
    {
        using (new UninterruptedLock(_gate))
            return _objects.Remove(used);
    }
}

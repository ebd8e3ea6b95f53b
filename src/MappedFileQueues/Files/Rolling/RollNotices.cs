namespace MappedFileQueues.Files.Rolling;

/// <summary>
/// Tells the user's handler of rolled files, one after the other and in their order, on threads of the pool: it may take long (it
/// compresses the file, or sends it away), and a roll must not wait for it.
/// </summary>
internal sealed class RollNotices(Action<RolledFile> handler)
{
    private readonly Lock _gate = new();
    private readonly Queue<RolledFile> _files = [];
    private bool _isRunning;

    public void Add(RolledFile file)
    {
        lock (_gate)
        {
            _files.Enqueue(file);
            if (_isRunning)
                return;
            _isRunning = true;
        }

        ThreadPool.UnsafeQueueUserWorkItem(static self => self.Run(), this, preferLocal: false);
    }

    private void Run()
    {
        while (TryTake() is { } file)
        {
            try
            {
                handler(file);
            }
            catch (Exception)
            {
                // The file is rolled whatever the handler makes of it, and nobody waits here to be told.
            }
        }
    }

    private RolledFile? TryTake()
    {
        lock (_gate)
        {
            _isRunning = _files.TryDequeue(out RolledFile? file);
            return file;
        }
    }
}

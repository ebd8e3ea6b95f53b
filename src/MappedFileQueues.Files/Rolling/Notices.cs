namespace MappedFileQueues.Files.Rolling;

/// <summary>
/// Tells the user's handler of rolled files or of errors, one after the other and in their order, on threads of the pool: it may
/// take long (it compresses the file, or sends it away), and may write to the stream. A roll must not wait for it.
/// </summary>
internal sealed class Notices<T>
    where T : class
{
    private readonly Action<T> _handler;
    private readonly Lock _gate = new();
    private readonly Queue<T> _waiting = [];
    private bool _isRunning = true;

    /// <summary>
    /// Goes to the pool once with nothing to tell. The runtime loads an assembly for the first way there, and where the process
    /// has no descriptor left by then it finds none: a roll would end the stream, although it needs no descriptor itself.
    /// </summary>
    public Notices(Action<T> handler)
    {
        _handler = handler;
        QueueRun();
    }

    public void Add(T notice)
    {
        lock (_gate)
        {
            _waiting.Enqueue(notice);
            if (_isRunning)
                return;
            _isRunning = true;
        }

        QueueRun();
    }

    private void QueueRun()
    {
        try
        {
            ThreadPool.UnsafeQueueUserWorkItem(static self => self.Run(), this, preferLocal: false);
        }
        catch (OutOfMemoryException)
        {
            // It is queued all the same, and runs once the system gives the pool a thread.
        }
    }

    private void Run()
    {
        while (TryTake() is { } notice)
        {
            try
            {
                _handler(notice);
            }
            catch (Exception)
            {
                // What the handler is told of is done whatever it makes of it, and nobody waits here to be told.
            }
        }
    }

    private T? TryTake()
    {
        lock (_gate)
        {
            _isRunning = _waiting.TryDequeue(out T? notice);
            return notice;
        }
    }
}

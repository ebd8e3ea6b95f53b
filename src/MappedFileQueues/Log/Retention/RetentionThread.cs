using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// Applies the store's policy, on a thread of its own: at every roll of this queue's producers and consumers, and once a second.
/// The thread starts when the store has a policy. Every attached queue has one, so a store is trimmed as long as any process has
/// it open.
/// </summary>
internal sealed class RetentionThread(LogStore store, StoreRetention retention) : IDisposable
{
    private readonly Lock _starting = new();
    private readonly AutoResetEvent _noticed = new(false);
    private volatile Thread? _thread;

    /// <summary>Whether it is this thread.</summary>
    public bool IsCurrent => _thread == Thread.CurrentThread;

    /// <inheritdoc cref="StoreRetention.IsRemoved"/>
    public bool IsRemoved(long offset) => retention.IsRemoved(offset);

    /// <summary>
    /// A producer or consumer of this queue has entered a segment. Never waits and never fails: where the system gives no thread,
    /// the next roll tries again.
    /// </summary>
    public void NoticeRoll()
    {
        try
        {
            if (_thread is not null || store.Directory.Identify(StoreNames.Retention) is not null)
                Notice();
        }
        catch (MappedFileQueueException error)
        {
            // The next roll tries again.
            store.Control.RetentionFailure.Write(store.Settings.TimeProvider.GetUtcNow(), error.Message);
        }
    }

    /// <summary>The store has a policy, perhaps a new one.</summary>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public void Notice()
    {
        if (ProtocolSteps.Background is { } background)
        {
            background(retention.Apply);
            return;
        }

        if (_thread is null)
            Start();
        store.Spares.BeginLook();
        _noticed.Set();
    }

    /// <summary>Ends the thread, after the removal under way. The store is closing by then.</summary>
    public void Dispose()
    {
        Thread? thread;
        lock (_starting)
            thread = _thread;
        _noticed.Set();
        // A handler of an event may close the queue.
        if (thread is not null && thread != Thread.CurrentThread)
            thread.Join();
        _noticed.Dispose();
    }

    private void Start()
    {
        lock (_starting)
        {
            if (_thread is null && !store.HasEnded)
                _thread = BackgroundThread.Start(Run, "retention");
        }
    }

    private void Run()
    {
        while (!store.HasEnded)
        {
            retention.Apply();
            if (!store.HasEnded)
                _noticed.WaitOne(StoreRetention.LookInterval);
        }
    }
}

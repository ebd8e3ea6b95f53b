namespace MappedFileQueues.Testing;

/// <summary>
/// A queue of structs for one test: in a folder of its own below the system's folder for temporary files, with
/// segments of 64 KiB, on a disk whose faults the test may switch on. Dispose removes all of it; a process that dies before that
/// leaves the folder.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed class TemporaryQueue<T> : IDisposable, IAsyncDisposable
    where T : unmanaged
{
    private readonly TemporaryStore _store;

    /// <summary>Makes the folder and opens the queue.</summary>
    /// <param name="configure">Changes the options, for example the clock (<see cref="MappedFileQueueOptions.TimeProvider"/>) or
    /// the level of durability.</param>
    public TemporaryQueue(Action<MappedFileQueueOptions>? configure = null)
    {
        _store = new TemporaryStore(configure);
        try
        {
            Queue = new MappedFileQueue<T>(_store.Options);
        }
        catch
        {
            _store.Dispose();
            throw;
        }
    }

    /// <summary>The queue that is open now.</summary>
    public MappedFileQueue<T> Queue { get; private set; }

    /// <summary>The store's directory; others may open it too.</summary>
    public string StorePath => _store.Options.StorePath;

    /// <summary>The disk that the queue sees.</summary>
    public FaultDisk Disk => _store.Disk;

    /// <summary>
    /// Closes the queue and opens its store again, as a program that is started again does. What was appended and committed is
    /// there.
    /// </summary>
    /// <returns>The queue that is open now.</returns>
    public MappedFileQueue<T> Reopen()
    {
        Queue.Dispose();
        return Queue = new MappedFileQueue<T>(_store.Options);
    }

    /// <summary>Closes the queue and removes its files.</summary>
    public void Dispose()
    {
        Queue.Dispose();
        _store.Dispose();
    }

    /// <inheritdoc cref="Dispose"/>
    /// <returns>A task that completes when the files are removed.</returns>
    public async ValueTask DisposeAsync()
    {
        await Queue.DisposeAsync().ConfigureAwait(false);
        _store.Dispose();
    }
}

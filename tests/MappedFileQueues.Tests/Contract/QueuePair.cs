using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Contract;

/// <summary>
/// A fresh store with a queue that produces and one that consumes: the same queue, or two on one path in this process, which
/// must be as good as in two processes.
/// </summary>
internal sealed class QueuePair : IDisposable
{
    private readonly QueueKind _kind;
    private readonly TempStore _store;
    private readonly MappedFileQueueOptions _options;

    public QueuePair(QueueKind kind, bool two, bool inMemory, Action<MappedFileQueueOptions> configure)
    {
        _kind = kind;
        _store = inMemory ? TempStore.InMemory() : new TempStore();
        _options = new MappedFileQueueOptions { StorePath = _store.StorePath };
        try
        {
            configure(_options);
            Left = QueueUnderTest.Open(kind, _options);
            Right = two ? QueueUnderTest.Open(kind, _options) : Left;
        }
        catch
        {
            // Options that are refused: the store's folder is there all the same.
            Left?.Dispose();
            _store.Dispose();
            throw;
        }
    }

    /// <summary>Where the tests produce.</summary>
    public QueueUnderTest Left { get; private set; }

    /// <summary>Where the tests consume.</summary>
    public QueueUnderTest Right { get; private set; }

    public ProducerUnderTest Producer => Left.Producer;

    public ConsumerUnderTest Consumer => Right.Consumer;

    public string Path => _store.StorePath;

    public MappedFileQueueOptions Options => _options;

    public TempStore Store => _store;

    /// <summary>Whether some consumer has said that it goes to sleep: the waiters' flag in the control page.</summary>
    public bool HasWaiter => IsSet(ControlLayout.WaiterFlagAt);

    /// <summary>Whether some producer has said that it waits for consumers.</summary>
    public bool HasRoomWaiter => IsSet(ControlLayout.CapacityWaiterFlagAt);

    /// <summary>Closes everything and opens it again, possibly with other options.</summary>
    public void Reopen(Action<MappedFileQueueOptions>? configure = null)
    {
        bool two = Left != Right;
        Close();
        configure?.Invoke(_options);
        Left = QueueUnderTest.Open(_kind, _options);
        Right = two ? QueueUnderTest.Open(_kind, _options) : Left;
    }

    /// <summary>One more queue on the same path.</summary>
    public QueueUnderTest OpenAnother(Action<MappedFileQueueOptions>? configure = null)
    {
        MappedFileQueueOptions options = new()
        {
            StorePath = Path,
            SegmentSize = _options.SegmentSize,
            ProducerMode = _options.ProducerMode,
        };
        configure?.Invoke(options);
        return QueueUnderTest.Open(_kind, options);
    }

    /// <summary>Closes the queues; the store stays.</summary>
    public void Close()
    {
        Left.Dispose();
        Right.Dispose();
    }

    public void Dispose()
    {
        Close();
        _store.Dispose();
    }

    private bool IsSet(int wordAt)
    {
        using FileStream control = new(
            _store.PathOf(StoreNames.Control), FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
        control.Position = wordAt;
        Span<byte> word = stackalloc byte[8];
        control.ReadExactly(word);
        return word.ContainsAnyExcept((byte)0);
    }
}

using MappedFileQueues.Log;

namespace MappedFileQueues;

/// <summary>What the producers of both kinds of queue share: the appender of their mode, counted flushes, the end.</summary>
internal sealed class ProducerCore
{
    private readonly QueueCore _queue;
    private readonly long _flushEvery;
    private long _produced;
    private readonly Lock _disposing = new();
    private bool _disposed;

    public ProducerCore(QueueCore queue)
    {
        using CallGate.Call call = queue.EnterCall();
        _queue = queue;
        Appender = queue.Store.OpenAppender();
        Exclusive = Appender as ExclusiveAppender;
        Shared = Appender as SharedAppender;
        _flushEvery = queue.Store.Settings.FlushEveryCount;
    }

    public LogAppender Appender { get; }

    /// <summary>The appender when the mode is Exclusive, else null; and the other way round.</summary>
    public ExclusiveAppender? Exclusive { get; }

    public SharedAppender? Shared { get; }

    public bool CountsFlushes => _flushEvery > 0;

    public long ConfirmedOffset
    {
        get
        {
            using CallGate.Call call = _queue.EnterCall();
            return _queue.Store.Flusher.ConfirmedOffset;
        }
    }

    /// <summary>
    /// Flushes when the counted interval is reached. The messages are published already, also when this throws.
    /// </summary>
    public void CountProduced(long count)
    {
        long produced = Interlocked.Add(ref _produced, count);
        if (produced / _flushEvery != (produced - count) / _flushEvery)
            _queue.Flush();
    }

    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken)
    {
        if (upTo <= ConfirmedOffset)
            return ValueTask.FromResult(ConfirmedOffset);
        return new ValueTask<long>(Task.Run(_queue.Flush, cancellationToken));
    }

    public void AdjustOffset(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        using CallGate.Call call = _queue.EnterCall();
        LogOrigin.Move(_queue.Store, Appender, offset);
    }

    public void Prepare(long bytes)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(bytes);
        using CallGate.Call call = _queue.EnterCall();
        Appender.Prepare(bytes);
    }

    /// <summary>Ends the producer, whose public face the queue forgets.</summary>
    public void Dispose(IDisposable face)
    {
        // Before the lock: who holds it may be waiting for this thread's claim, without a limit if LockTimeout has none.
        Appender.FenceOwnClaim();
        // A second caller, the queue's own end say, returns only when the first is through: afterwards the store is unmapped.
        lock (_disposing)
        {
            if (_disposed)
                return;
            _disposed = true;
            _queue.Store.CloseAppender(Appender);
        }

        _queue.Remove(face);
    }
}

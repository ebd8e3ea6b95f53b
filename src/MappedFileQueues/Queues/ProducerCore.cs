using MappedFileQueues.Log;

namespace MappedFileQueues;

/// <summary>What the producers of both kinds of queue share: the appender of their mode, counted flushes, the end.</summary>
internal sealed class ProducerCore : IDisposable
{
    private readonly QueueCore _queue;
    private readonly long _flushEvery;
    private long _produced;
    private int _disposed;

    public ProducerCore(QueueCore queue)
    {
        queue.ThrowIfDisposed();
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

    public LogStore Store => _queue.Store;

    public long ConfirmedOffset => Store.Flusher.ConfirmedOffset;

    /// <summary>
    /// Flushes when the counted interval is reached. The messages are published already, also when this throws.
    /// </summary>
    public void CountProduced(long count)
    {
        long produced = Interlocked.Add(ref _produced, count);
        if (produced / _flushEvery != (produced - count) / _flushEvery)
            Store.Flusher.Flush();
    }

    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken)
    {
        if (upTo <= ConfirmedOffset)
            return ValueTask.FromResult(ConfirmedOffset);
        return new ValueTask<long>(Task.Run(Store.Flusher.Flush, cancellationToken));
    }

    public void AdjustOffset(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        LogOrigin.Move(Store, Appender, offset);
    }

    public void Dispose()
    {
        if (Interlocked.Exchange(ref _disposed, 1) != 0)
            return;
        Store.CloseAppender(Appender);
    }
}

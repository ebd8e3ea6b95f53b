using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Threads;


namespace MappedFileQueues;

/// <summary>
/// What the producers of both kinds of queue share: the appender of their mode, flushes behind an append, the end.
/// </summary>
internal sealed class ProducerCore
{
    private readonly QueueCore _queue;
    private readonly DurabilityLevel _level;
    private readonly long _flushEvery;
    private readonly Lock _disposing = new();
    private long _produced;
    private bool _disposed;

    public ProducerCore(QueueCore queue)
    {
        _queue = queue;
        Appender = queue.OpenAppender();
        Exclusive = Appender as ExclusiveAppender;
        Shared = Appender as SharedAppender;
        _level = queue.Level;
        _flushEvery = queue.Store.Settings.FlushEveryCount;
    }

    public LogAppender Appender { get; }

    /// <summary>The appender when the mode is Exclusive, else null; and the other way round.</summary>
    public ExclusiveAppender? Exclusive { get; }

    public SharedAppender? Shared { get; }

    /// <summary>
    /// Something is to be done behind an append: the level is Group, or flushes are counted. Producers ask it once, so that the
    /// others pay nothing a message.
    /// </summary>
    public bool HasFlushes => _level == DurabilityLevel.Group || _flushEvery > 0;

    public long ConfirmedOffset => _queue.ConfirmedOffset;

    /// <summary>Before an append that will wait for its flush: this thread must not wait for a claim of its own.</summary>
    public void ThrowIfOwnClaimIsOpen() => _queue.Store.Producers.ThrowIfOwnClaimIsOpen();

    /// <summary>Looks at a call's options before anything is written.</summary>
    public void Check(in ProduceOptions options)
    {
        options.CancellationToken.ThrowIfCancellationRequested();
        if (options.Timeout is { } timeout && timeout != Timeout.InfiniteTimeSpan)
            ArgumentOutOfRangeException.ThrowIfLessThan(timeout, TimeSpan.Zero, nameof(options));
        DurabilityLevel level = options.Durability ?? _level;
        if (level is < DurabilityLevel.PageCache or > DurabilityLevel.Group)
            throw new ArgumentOutOfRangeException(nameof(options), level, "Durability must be a defined level.");
        if (level == DurabilityLevel.Group || _flushEvery > 0)
            ThrowIfOwnClaimIsOpen();
        if (level == DurabilityLevel.Interval)
            _queue.Attachment.FlushThread.StartTicking();
    }

    /// <summary>
    /// Waits for the flush that the level, or the count, asks for. The messages are published already, also when this throws.
    /// </summary>
    /// <param name="end">The offset behind the last one.</param>
    /// <param name="count">How many.</param>
    public void Confirm(long end, long count)
    {
        if (IsFlushDue(_level, count))
            _queue.WaitForFlush(end, FlushPatience.Endless);
    }

    /// <inheritdoc cref="Confirm(long, long)"/>
    /// <param name="end">The offset behind the last one.</param>
    /// <param name="count">How many.</param>
    /// <param name="options">Checked before.</param>
    public void Confirm(long end, long count, in ProduceOptions options)
    {
        if (!IsFlushDue(options.Durability ?? _level, count))
            return;
        var patience = new FlushPatience(options.Timeout ?? Timeout.InfiniteTimeSpan, options.CancellationToken);
        _queue.WaitForFlush(end, patience);
    }

    /// <summary>As <see cref="Confirm(long, long)"/> of one message, without blocking; the result is its offset.</summary>
    public ValueTask<long> ConfirmAsync(long offset, long end, CancellationToken cancellationToken) =>
        IsFlushDue(_level, 1) ? _queue.WaitForFlushAsync(end, offset, cancellationToken) : ValueTask.FromResult(offset);

    /// <summary>Covers the message that begins at the offset: nothing of a frame is confirmed without the rest.</summary>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(upTo);
        return _queue.FlushAsync(upTo == long.MaxValue ? upTo : upTo + 1, cancellationToken);
    }

    public ValueTask<long> FlushAsync(CancellationToken cancellationToken) =>
        _queue.FlushAsync(long.MaxValue, cancellationToken);

    public void AdjustOffset(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        _queue.MoveOrigin(Appender, offset);
    }

    public void Prepare(long bytes)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(bytes);
        _queue.Prepare(Appender, bytes);
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
            _queue.Attachment.CloseAppender(Appender);
        }

        _queue.Remove(face);
    }

    private bool IsFlushDue(DurabilityLevel level, long count)
    {
        bool isCounted = false;
        if (_flushEvery > 0)
        {
            long produced = Interlocked.Add(ref _produced, count);
            isCounted = produced / _flushEvery != (produced - count) / _flushEvery;
        }

        return isCounted || level == DurabilityLevel.Group;
    }
}

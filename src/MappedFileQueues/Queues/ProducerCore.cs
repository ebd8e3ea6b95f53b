using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// What the producers of both kinds of queue share: the appender for their mode, the flush after an append, and disposal.
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

    /// <summary>The appender when the mode is Exclusive, else null.</summary>
    public ExclusiveAppender? Exclusive { get; }

    public SharedAppender? Shared { get; }

    /// <summary>
    /// Whether an append may be followed by a flush: the level is Group, or flushes are counted. Producers read it once, so that
    /// other messages pay nothing.
    /// </summary>
    public bool HasFlushes => _level == DurabilityLevel.Group || _flushEvery > 0;

    /// <summary>Whether an asynchronous append may have to wait: for a flush, or for consumers.</summary>
    public bool MayPend => HasFlushes || _queue.IsLimited;

    public long ConfirmedOffset => _queue.ConfirmedOffset;

    /// <summary>Called before an append that will wait for its flush: this thread must not wait for a claim of its own.</summary>
    public void ThrowIfOwnClaimIsOpen() => _queue.Store.Producers.ThrowIfOwnClaimIsOpen();

    /// <summary>Checks a call's options before anything is written.</summary>
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

    /// <summary>Appends a message that found no room; waits as the options say. Returns its offset.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public long AppendWhenRoom(ref byte payload, int length) => AppendWhenRoom(ref payload, length, FlushPatience.Endless);

    /// <summary>The same, and waits for its flush, in the time that the options of the call give for both.</summary>
    public long AppendWhenRoom(ref byte payload, int length, in ProduceOptions options)
    {
        var patience = new FlushPatience(options.Timeout ?? Timeout.InfiniteTimeSpan, options.CancellationToken);
        long offset = AppendWhenRoom(ref payload, length, patience);
        if (IsFlushDue(options.Durability ?? _level, 1))
            _queue.WaitForFlush(offset + FrameHeader.FrameLength(length), patience);
        return offset;
    }

    /// <summary>Appends a batch that found no room; returns the first message's offset.</summary>
    public long AppendBatchWhenRoom(ref byte messages, int messageLength, int count)
    {
        using RoomWait wait = _queue.BeginRoomWait(FlushPatience.Endless);
        while (true)
        {
            wait.Prepare();
            long offset = Appender.AppendBatch(ref messages, messageLength, count);
            if (offset >= 0)
                return offset;
            wait.Sleep();
        }
    }

    /// <inheritdoc cref="AppendBatchWhenRoom(ref byte, int, int)"/>
    public long AppendBatchWhenRoom(ReadOnlySpan<ReadOnlyMemory<byte>> messages)
    {
        using RoomWait wait = _queue.BeginRoomWait(FlushPatience.Endless);
        while (true)
        {
            wait.Prepare();
            long offset = Appender.AppendBatch(messages);
            if (offset >= 0)
                return offset;
            wait.Sleep();
        }
    }

    /// <summary>Opens a claim; waits for room as the options say.</summary>
    public AppendLane Claim(int lengthMax)
    {
        if (Appender.Claim(lengthMax) is { } opened)
            return opened;
        using RoomWait wait = _queue.BeginRoomWait(FlushPatience.Endless);
        while (true)
        {
            wait.Prepare();
            if (Appender.Claim(lengthMax) is { } lane)
                return lane;
            wait.Sleep();
        }
    }

    /// <summary>
    /// Appends a message now, or copies it and appends it when there is room, behind those that wait already. Waits for its
    /// flush, too.
    /// </summary>
    public ValueTask<long> AppendAsync(ReadOnlySpan<byte> message, CancellationToken cancellationToken)
    {
        if (HasFlushes)
            ThrowIfOwnClaimIsOpen();
        if (_queue.Attachment.PendingAppends?.IsAnyThere != true)
        {
            long offset = Appender.TryAppend(ref MemoryMarshal.GetReference(message), message.Length);
            if (offset >= 0)
                return ConfirmAsync(offset, offset + FrameHeader.FrameLength(message.Length), cancellationToken);
        }

        _queue.ThrowIfFull();
        Task<long> append = _queue.AppendLater(Appender, message.ToArray(), cancellationToken);
        return HasFlushes
            ? ConfirmLaterAsync(append, FrameHeader.FrameLength(message.Length), cancellationToken)
            : new ValueTask<long>(append);
    }

    /// <summary>
    /// Waits for the flush that the level or the count asks for. The messages are published by then, even if this throws.
    /// </summary>
    /// <param name="end">The offset after the last message.</param>
    /// <param name="count">The number of messages.</param>
    public void Confirm(long end, long count)
    {
        if (IsFlushDue(_level, count))
            _queue.WaitForFlush(end, FlushPatience.Endless);
    }

    /// <inheritdoc cref="Confirm(long, long)"/>
    /// <param name="end">The offset after the last message.</param>
    /// <param name="count">The number of messages.</param>
    /// <param name="options">Checked before.</param>
    public void Confirm(long end, long count, in ProduceOptions options)
    {
        if (!IsFlushDue(options.Durability ?? _level, count))
            return;
        var patience = new FlushPatience(options.Timeout ?? Timeout.InfiniteTimeSpan, options.CancellationToken);
        _queue.WaitForFlush(end, patience);
    }

    /// <summary>Like <see cref="Confirm(long, long)"/> for one message, without blocking. The result is its offset.</summary>
    public ValueTask<long> ConfirmAsync(long offset, long end, CancellationToken cancellationToken) =>
        IsFlushDue(_level, 1) ? _queue.WaitForFlushAsync(end, offset, cancellationToken) : ValueTask.FromResult(offset);

    /// <summary>Covers the message that starts at the offset: a frame is confirmed whole or not at all.</summary>
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

    /// <summary>Ends the producer. The queue forgets its public face.</summary>
    public void Dispose(IDisposable face)
    {
        // Before the lock: the thread that holds it may wait for this thread's claim, without a limit if LockTimeout has none.
        Appender.FenceOwnClaim();
        // A second caller (for example the queue's Dispose) returns only after the first has finished: then the store is
        // unmapped.
        lock (_disposing)
        {
            if (_disposed)
                return;
            _disposed = true;
            _queue.Attachment.CloseAppender(Appender);
        }

        _queue.Remove(face);
    }

    private long AppendWhenRoom(ref byte payload, int length, FlushPatience patience)
    {
        using RoomWait wait = _queue.BeginRoomWait(patience);
        while (true)
        {
            wait.Prepare();
            long offset = Appender.TryAppend(ref payload, length);
            if (offset >= 0)
                return offset;
            wait.Sleep();
        }
    }

    private async ValueTask<long> ConfirmLaterAsync(Task<long> append, long frameLength, CancellationToken cancellationToken)
    {
        long offset = await append.ConfigureAwait(false);
        return await ConfirmAsync(offset, offset + frameLength, cancellationToken).ConfigureAwait(false);
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

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// What the producers of both kinds of queue share: the appender for their mode, the flush after an append, and disposal.
/// </summary>
internal sealed class ProducerCore
{
    private readonly StoreEngine _queue;
    private readonly DurabilityLevel _level;
    private readonly long _flushEvery;
    private readonly HeaderStamps _stamps;
    private readonly Lock _disposing = new();
    private long _produced;
    private bool _disposed;

    public ProducerCore(StoreEngine queue)
    {
        _queue = queue;
        Appender = queue.OpenAppender();
        Exclusive = Appender as ExclusiveAppender;
        Shared = Appender as SharedAppender;
        _level = queue.Level;
        _flushEvery = queue.Store.Settings.FlushEveryCount;
        _stamps = queue.Store.Settings.Stamps;
        HasFlushes = _level == DurabilityLevel.Group || _flushEvery > 0;
    }

    public LogAppender Appender { get; }

    /// <summary>The appender when the mode is Exclusive, else null.</summary>
    public ExclusiveAppender? Exclusive { get; }

    public SharedAppender? Shared { get; }

    /// <summary>
    /// Whether an append may be followed by a flush: the level is Group, or flushes are counted. Producers read it once, so that
    /// other messages pay nothing.
    /// </summary>
    public bool HasFlushes { get; }

    /// <summary>Whether a message is appended as it is: no flush may follow, and it gets no stamps.</summary>
    public bool IsPlain => !HasFlushes && !_stamps.StampsAny;

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
            _queue.Flusher.StartTicking();
    }

    /// <summary>A batch of nothing ends at the tail, where it began.</summary>
    public long EndOfNothing()
    {
        Appender.ThrowIfDisposed();
        return Appender.TailOffset;
    }

    /// <summary>How long a call with these options waits.</summary>
    public static CallDeadline DeadlineOf(in ProduceOptions options) =>
        new(options.Timeout ?? Timeout.InfiniteTimeSpan, options.CancellationToken);

    /// <summary>Appends a message that found no room; waits without end. Returns its offset.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public long AppendWhenCapacity(ref byte payload, int length, ReadOnlySpan<byte> block = default) => AppendWhenCapacity(
        new MessagesToAppend(MemoryMarshal.CreateReadOnlySpan(ref payload, length), block), CallDeadline.Endless);

    /// <summary>Writes the header block of a message: what its caller gave, and the stamps. Empty when there is none.</summary>
    /// <param name="headers">What the caller gave.</param>
    /// <param name="scratch">Room for <see cref="HeaderBlock.LengthMax"/> bytes.</param>
    public ReadOnlySpan<byte> WriteBlock(MessageHeaders? headers, Span<byte> scratch) =>
        headers is null && !_stamps.StampsAny ? default : _stamps.Write(headers, default, scratch);

    /// <inheritdoc cref="HeaderStamps.TryWrite"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int TryWriteBlock(MessageHeaders? headers, ref SmallHeaderBlock block) =>
        _stamps.TryWrite(headers, default, ref block);

    /// <summary>The same for a numbered message.</summary>
    public ReadOnlySpan<byte> WriteBlock(MessageHeaders? headers, MessageNumber number, Span<byte> scratch) =>
        _stamps.Write(headers, number, scratch);

    /// <summary>A batch whose messages have numbers, one after the other.</summary>
    public MessagesToAppend Number(in MessagesToAppend batch, MessageHeaders? headers, MessageNumber first) =>
        new(batch, headers, first, _stamps);

    /// <summary>Appends messages, and waits for their flush where one is due; returns the first one's offset.</summary>
    public long Append(in MessagesToAppend messages)
    {
        if (HasFlushes)
            ThrowIfOwnClaimIsOpen();
        long offset = messages.AppendTo(Appender);
        if (offset < 0)
            offset = AppendWhenCapacity(messages, CallDeadline.Endless);
        if (HasFlushes)
            Confirm(offset + messages.FramesLength, messages.Count);
        return offset;
    }

    /// <summary>
    /// Whether a call needs no check before its append and nothing after it: no flush may follow, and its options ask for headers
    /// at most.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool IsUnconfirmed(in ProduceOptions options) => !HasFlushes && options.Durability is null
        && options.Timeout is null && !options.CancellationToken.CanBeCanceled;

    /// <summary>The same in the time that the options of the call give; they were checked before.</summary>
    public long Append(in MessagesToAppend messages, in ProduceOptions options)
    {
        CallDeadline deadline = DeadlineOf(options);
        long offset = AppendUnconfirmed(messages, deadline);
        Confirm(offset + messages.FramesLength, messages.Count, options.Durability, deadline);
        return offset;
    }

    /// <summary>Checks the options, and appends with their headers.</summary>
    [SkipLocalsInit]
    public long Produce(in MessagesToAppend messages, in ProduceOptions options)
    {
        Check(options);
        if (messages.Count == 0)
            return EndOfNothing();
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return Append(new MessagesToAppend(messages, WriteBlock(options.Headers, scratch)), options);
    }

    /// <summary>The same without the flush that may be due.</summary>
    public long AppendUnconfirmed(in MessagesToAppend messages, CallDeadline deadline)
    {
        long offset = messages.AppendTo(Appender);
        return offset >= 0 ? offset : AppendWhenCapacity(messages, deadline);
    }

    /// <summary>The same without a wait for consumers; false when they are too far behind.</summary>
    public bool TryAppend(in MessagesToAppend messages)
    {
        if (HasFlushes)
            ThrowIfOwnClaimIsOpen();
        long offset = messages.AppendTo(Appender);
        if (offset >= 0 && HasFlushes)
            Confirm(offset + messages.FramesLength, messages.Count);
        return offset >= 0;
    }

    /// <summary>A batch whose messages have headers of their own.</summary>
    /// <exception cref="ArgumentException">There are more or fewer headers than messages.</exception>
    public MessagesToAppend WithHeaders(in MessagesToAppend batch, ReadOnlySpan<MessageHeaders?> headers) =>
        headers.Length == batch.Count
            ? new MessagesToAppend(batch, headers, _stamps)
            : throw new ArgumentException(
                $"A batch needs headers, or null, for each message: messages={batch.Count}, headers={headers.Length}.",
                nameof(headers));

    /// <summary>Appends messages that found no room; returns the first one's offset.</summary>
    private long AppendWhenCapacity(in MessagesToAppend messages, CallDeadline deadline)
    {
        using CapacityWait wait = _queue.BeginCapacityWait(deadline);
        while (true)
        {
            wait.Next();
            long offset = messages.AppendTo(Appender);
            if (offset >= 0)
                return offset;
        }
    }

    /// <summary>Opens a claim; waits for room as long as the deadline allows.</summary>
    /// <param name="lengthMax">The length of the header block and the longest message.</param>
    /// <param name="deadline">How long the call waits.</param>
    public AppendLane Claim(int lengthMax, CallDeadline deadline)
    {
        if (Appender.Claim(lengthMax) is { } opened)
            return opened;
        using CapacityWait wait = _queue.BeginCapacityWait(deadline);
        while (true)
        {
            wait.Next();
            if (Appender.Claim(lengthMax) is { } lane)
                return lane;
        }
    }

    /// <summary>As <see cref="Produce"/>, without blocking.</summary>
    [SkipLocalsInit]
    public ValueTask<long> ProduceAsync(in MessagesToAppend messages, in ProduceOptions options)
    {
        if (messages.Count == 0 && !options.CancellationToken.IsCancellationRequested)
        {
            Check(options);
            return ValueTask.FromResult(EndOfNothing());
        }

        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return AppendAsync(new MessagesToAppend(messages, WriteBlock(options.Headers, scratch)), options);
    }

    /// <summary>
    /// Appends messages now, or copies them and appends them when there is room, after those that wait already. Waits for their
    /// flush, too.
    /// </summary>
    /// <param name="messages">The messages.</param>
    /// <param name="options">Of the call.</param>
    /// <param name="appended">Called with the first one's offset before the flush is waited for; on any thread.</param>
    public ValueTask<long> AppendAsync(
        in MessagesToAppend messages, in ProduceOptions options, Action<long>? appended = null)
    {
        if (options.CancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(options.CancellationToken);
        Check(options);
        var length = new AppendLength(messages.FramesLength, messages.Count);
        if (!_queue.IsAnyAppendWaiting)
        {
            long offset = messages.AppendTo(Appender);
            if (offset >= 0)
            {
                appended?.Invoke(offset);
                return ConfirmAsync(offset, length, options);
            }
        }

        _queue.ThrowIfFull();
        return AppendLaterAsync(messages.Copy(), length, options, appended);
    }

    /// <summary>
    /// Waits for the flush that the level or the count asks for. The messages are published by then, even if this throws.
    /// </summary>
    /// <param name="end">The offset after the last message.</param>
    /// <param name="count">The number of messages.</param>
    public void Confirm(long end, long count) => Confirm(end, count, null, CallDeadline.Endless);

    /// <inheritdoc cref="Confirm(long, long)"/>
    /// <param name="end">The offset after the last message.</param>
    /// <param name="count">The number of messages.</param>
    /// <param name="level">Null: the queue's level.</param>
    /// <param name="deadline">How long the call waits.</param>
    public void Confirm(long end, long count, DurabilityLevel? level, CallDeadline deadline)
    {
        if (IsFlushDue(level ?? _level, count))
            _queue.WaitForFlush(end, deadline);
    }

    /// <summary>Waits for the flush of what is before an offset, if the level asks for it, without blocking.</summary>
    public ValueTask<long> ConfirmAsync(long end, in ProduceOptions options) => ConfirmAsync(end, default, options);

    /// <summary>Covers the message that starts at the offset: a frame is durable whole or not at all.</summary>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(upTo);
        return _queue.FlushAsync(upTo == long.MaxValue ? upTo : upTo + 1, cancellationToken);
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
            _queue.CloseAppender(Appender);
        }

        _queue.Remove(face);
    }

    /// <summary>The longest time that a timer takes, some 49 days; beyond that a call has no limit.</summary>
    private static readonly TimeSpan TimerMax = TimeSpan.FromMilliseconds(uint.MaxValue - 1L);

    private static bool IsTimed(in ProduceOptions options) =>
        options.Timeout is { } timeout && timeout != Timeout.InfiniteTimeSpan && timeout <= TimerMax;

    /// <summary>Waits for the flush of appended messages without blocking. The result is the first one's offset.</summary>
    private ValueTask<long> ConfirmAsync(long offset, AppendLength length, in ProduceOptions options)
    {
        if (!IsFlushDue(options.Durability ?? _level, length.Count))
            return ValueTask.FromResult(offset);
        return IsTimed(options)
            ? EndInTimeAsync(null, offset, length, options, appended: null)
            : _queue.WaitForFlushAsync(offset + length.Bytes, offset, options.CancellationToken);
    }

    private ValueTask<long> AppendLaterAsync(
        WaitingMessages messages, AppendLength length, in ProduceOptions options, Action<long>? appended)
    {
        if (IsTimed(options))
            return EndInTimeAsync(messages, LogAppender.Full, length, options, appended);
        Task<long> append = _queue.AppendLater(Appender, messages, options.CancellationToken);
        return _flushEvery > 0 || (options.Durability ?? _level) == DurabilityLevel.Group || appended is not null
            ? ConfirmLaterAsync(append, length, options, appended)
            : new ValueTask<long>(append);
    }

    private async ValueTask<long> ConfirmLaterAsync(
        Task<long> append, AppendLength length, ProduceOptions options, Action<long>? appended)
    {
        long offset = await append.ConfigureAwait(false);
        appended?.Invoke(offset);
        return await ConfirmAsync(offset, length, options).ConfigureAwait(false);
    }

    /// <summary>
    /// Waits in the time that the call has, first for consumers unless the messages are appended, then for the flush.
    /// </summary>
    /// <param name="messages">What is not appended yet; null when it is.</param>
    /// <param name="offset">The first message's offset, when it is appended.</param>
    /// <param name="length">What the messages take.</param>
    /// <param name="options">Of the call.</param>
    /// <param name="appended">Called when they are appended.</param>
    private async ValueTask<long> EndInTimeAsync(
        WaitingMessages? messages, long offset, AppendLength length, ProduceOptions options, Action<long>? appended)
    {
        using var ended = CancellationTokenSource.CreateLinkedTokenSource(options.CancellationToken);
        ended.CancelAfter(options.Timeout!.Value);
        ProduceOptions untimed = options with { Timeout = null, CancellationToken = ended.Token };
        try
        {
            if (messages is not null)
            {
                offset = await _queue.AppendLater(Appender, messages, ended.Token).ConfigureAwait(false);
                messages = null;
                appended?.Invoke(offset);
            }

            return await ConfirmAsync(offset, length, untimed).ConfigureAwait(false);
        }
        catch (OperationCanceledException error) when (error.CancellationToken == ended.Token)
        {
            string state = messages is null
                ? $"waiting for the flush. The messages stay appended; their durability is not known yet: offset={offset}"
                : $"waiting for consumers; nothing was appended: length={length.Bytes}";
            throw options.CancellationToken.IsCancellationRequested
                ? new OperationCanceledException($"Cancelled while {state}.", options.CancellationToken)
                : new TimeoutException($"The time was up while {state}, timeout={options.Timeout}.");
        }
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

    /// <summary>What the messages of a call take in the log.</summary>
    /// <param name="Bytes">The length of their frames.</param>
    /// <param name="Count">How many they are.</param>
    private readonly record struct AppendLength(long Bytes, int Count);
}

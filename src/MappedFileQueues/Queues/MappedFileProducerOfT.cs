using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Appending;

namespace MappedFileQueues;

/// <summary>
/// Appends structs. <see cref="ProducerMode.Shared"/> allows any number of threads on one producer,
/// <see cref="ProducerMode.Exclusive"/> one at a time. Appending allocates nothing. Once Produce has returned, its message
/// survives the death of every process.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed unsafe class MappedFileProducer<T> : IMappedFileProducer<T>, IDisposable
    where T : unmanaged
{
    private readonly ProducerCore _core;
    private readonly ExclusiveAppender? _exclusive;
    private readonly SharedAppender? _shared;
    private readonly bool _isPlain;

    /// <summary>The appender of an Exclusive producer with nothing to flush and nothing to stamp: the shortest way.</summary>
    private readonly ExclusiveAppender? _exclusiveAtOnce;

    internal MappedFileProducer(StoreEngine queue)
    {
        _core = new ProducerCore(queue);
        _exclusive = _core.Exclusive;
        _shared = _core.Shared;
        _isPlain = _core.IsPlain;
        _exclusiveAtOnce = _isPlain ? _exclusive : null;
    }

    /// <summary>The offset at which the next message will be written, as far as is known now.</summary>
    public long Offset => _core.Appender.TailOffset;

    /// <summary>Everything before it is on disk, whichever process flushed it.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Appends a message and returns its offset.</summary>
    /// <param name="message">The message, as <c>Produce(ref x)</c> or <c>Produce(in x)</c>.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="ObjectDisposedException">The producer or its queue is disposed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim on this producer.</exception>
    /// <exception cref="QueueDiskException">The disk is full or failed; nothing was appended.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged where the message would go, damage before it has prevented
    /// flushes for two intervals, or the stored offset of a consumer that
    /// <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> waits for is damaged; nothing was appended.</exception>
    /// <exception cref="QueueInUseException">Another process keeps the lock for creating segments; nothing was
    /// appended.</exception>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another; the message may be published
    /// nevertheless.</exception>
    /// <exception cref="QueueFullException">Consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind, and
    /// <see cref="MappedFileQueueOptions.FullMode"/> is Throw; nothing was appended. With Wait the call waits.</exception>
    /// <exception cref="ProducerFencedException">The claim was taken away; nothing was appended.</exception>
    /// <remarks>
    /// At the level Group, or when a counted flush is due, that flush may fail. Its leader then throws QueueDiskException and its
    /// waiters throw QueuePoisonedException; the message may be published nevertheless.
    /// </remarks>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public long Produce(ref readonly T message)
    {
        ref byte payload = ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message));
        if (_exclusiveAtOnce is { } exclusive && exclusive.Append(ref payload, sizeof(T), isKnown: true) is >= 0 and var offset)
            return offset;
        return ProduceElsewhere(ref payload);
    }

    /// <inheritdoc cref="Produce(ref readonly T)"/>
    public long Produce(T message) => Produce(ref message);

    /// <inheritdoc cref="Produce(ref readonly T)"/>
    /// <param name="message">The message.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <exception cref="OperationCanceledException">Cancelled before anything was written, also while the call waited for
    /// consumers, or while it waited for its flush. The exception's message says which; in the last case the message stays
    /// appended.</exception>
    /// <exception cref="TimeoutException">Consumers did not make room in time, and nothing was appended; or the flush did not end
    /// in time, and the message stays appended, its durability unknown. The exception's message says which.</exception>
    public long Produce(in T message, in ProduceOptions options) => _core.IsUnconfirmed(options)
        ? ProduceWithHeaders(ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message)), options.Headers)
        : ProduceChecked(in message, options);

    /// <summary>
    /// Appends a message. Returns false when consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind: then
    /// nothing was appended, whatever <see cref="MappedFileQueueOptions.FullMode"/> says.
    /// </summary>
    /// <param name="message">The message.</param>
    /// <returns>Whether it was appended.</returns>
    [SkipLocalsInit]
    public bool TryProduce(in T message)
    {
        if (_isPlain)
            return TryAppend(ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message))) >= 0;
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return _core.TryAppend(new MessagesToAppend(BytesOf(in message), _core.WriteBlock(null, scratch)));
    }

    /// <summary>Appends messages that become readable all at once or not at all.</summary>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <returns>The first message's offset; the tail when there is none.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The batch with its headers does not fit a segment; nothing was
    /// written.</exception>
    [SkipLocalsInit]
    public long ProduceBatch(ReadOnlySpan<T> messages)
    {
        if (messages.IsEmpty)
            return _core.EndOfNothing();
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return _core.Append(Batch(messages, _core.WriteBlock(null, scratch)));
    }

    /// <inheritdoc cref="ProduceBatch(ReadOnlySpan{T})"/>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <param name="options">Options of this call alone. Each message gets its headers.</param>
    /// <inheritdoc cref="Produce(in T, in ProduceOptions)" path="/exception"/>
    public long ProduceBatch(ReadOnlySpan<T> messages, in ProduceOptions options) => _core.Produce(Batch(messages), options);

    /// <inheritdoc cref="ProduceBatch(ReadOnlySpan{T}, in ProduceOptions)"/>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <param name="headers">The headers of each message, null for none; they take the place of those in the options.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <exception cref="ArgumentException">There are more or fewer headers than messages.</exception>
    public long ProduceBatch(
        ReadOnlySpan<T> messages, ReadOnlySpan<MessageHeaders?> headers, in ProduceOptions options = default)
    {
        _core.Check(options);
        MessagesToAppend batch = _core.WithHeaders(Batch(messages), headers);
        return messages.IsEmpty ? _core.EndOfNothing() : _core.Append(batch, options);
    }

    /// <summary>
    /// Appends a message before it returns. The result is complete at PageCache and Interval; at Group it completes when a flush
    /// has covered the message. Allocates nothing. Await the result once.
    /// <para>When consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind, the call copies the message,
    /// which allocates, and returns. The result completes when the message is appended. No thread waits for it alone, and
    /// messages that wait are appended in the order of the calls.</para>
    /// </summary>
    /// <param name="message">The message.</param>
    /// <param name="cancellationToken">When cancelled before the call, or while the message waits for consumers, nothing is
    /// written. When cancelled later, the message stays appended; its durability is unknown.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="QueueFullException">Consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind, and
    /// <see cref="MappedFileQueueOptions.FullMode"/> is Throw; nothing was appended. With Wait the call waits.</exception>
    public ValueTask<long> ProduceAsync(T message, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(cancellationToken);
        return _core.MayPend
            ? ProduceAsync(message, new ProduceOptions { CancellationToken = cancellationToken })
            : ValueTask.FromResult(Produce(ref message));
    }

    /// <inheritdoc cref="ProduceAsync(T, CancellationToken)"/>
    /// <param name="message">The message.</param>
    /// <param name="options">Options of this call alone. A timeout allocates, unless the result is complete at once.</param>
    /// <exception cref="OperationCanceledException">As with the cancellation token of the other form.</exception>
    /// <exception cref="TimeoutException">Consumers did not make room in time, and nothing was appended; or the flush did not end
    /// in time, and the message stays appended, its durability unknown. The exception's message says which.</exception>
    public ValueTask<long> ProduceAsync(T message, in ProduceOptions options) =>
        _core.ProduceAsync(new MessagesToAppend(BytesOf(in message)), options);

    /// <summary>
    /// Appends messages that become readable all at once or not at all, as <see cref="ProduceAsync(T, in ProduceOptions)"/>
    /// appends one: before it returns, or, when consumers are too far behind, from a copy when there is room for all of them.
    /// </summary>
    /// <param name="messages">The messages; an empty list appends nothing.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <returns>The first message's offset; the tail when there is none.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The batch with its headers does not fit a segment; nothing was
    /// written.</exception>
    /// <inheritdoc cref="ProduceAsync(T, in ProduceOptions)" path="/exception"/>
    public ValueTask<long> ProduceBatchAsync(ReadOnlyMemory<T> messages, in ProduceOptions options) =>
        _core.ProduceAsync(Batch(messages.Span), options);

    /// <inheritdoc cref="ProduceBatchAsync(ReadOnlyMemory{T}, in ProduceOptions)"/>
    /// <param name="messages">The messages; an empty list appends nothing.</param>
    /// <param name="cancellationToken">As for one message.</param>
    public ValueTask<long> ProduceBatchAsync(ReadOnlyMemory<T> messages, CancellationToken cancellationToken = default) =>
        ProduceBatchAsync(messages, new ProduceOptions { CancellationToken = cancellationToken });

    /// <inheritdoc cref="MappedFileProducer.FlushAsync(long, CancellationToken)"/>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        _core.FlushAsync(upTo, cancellationToken);

    /// <inheritdoc cref="MappedFileProducer.FlushAsync(CancellationToken)"/>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        _core.FlushAsync(long.MaxValue, cancellationToken);

    /// <inheritdoc cref="MappedFileProducer.Prepare(long)"/>
    public void Prepare(long bytes) => _core.Prepare(bytes);

    /// <inheritdoc/>
    public void AdjustOffset(long offset)
    {
        if (offset != Offset)
            throw new NotSupportedException(
                $"A producer appends at the log's end and cannot be moved: offset={offset}, end={Offset}.");
    }

    void IMappedFileProducer<T>.Produce(ref T message) => Produce(ref message);

    /// <summary>Ends the producer after its running calls have ended. Abandons an open claim of this thread.</summary>
    public void Dispose() => _core.Dispose(this);

    private static ReadOnlySpan<byte> BytesOf(ref readonly T message) =>
        MemoryMarshal.AsBytes(MemoryMarshal.CreateReadOnlySpan(in message, 1));

    private static MessagesToAppend Batch(ReadOnlySpan<T> messages, ReadOnlySpan<byte> block = default) =>
        new(MemoryMarshal.AsBytes(messages), sizeof(T), block);

    /// <summary>Returns a negative number when there is no room.</summary>
    private long TryAppend(ref byte payload) => _exclusive is not null
        ? _exclusive.Append(ref payload, sizeof(T))
        : _shared!.Append(ref payload, sizeof(T));

    /// <summary>
    /// Everything but a message that an Exclusive producer appends at once: a shared log, flushes, stamps, consumers too far
    /// behind. Not inlined, so that <see cref="Produce(ref readonly T)"/> is.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceElsewhere(ref byte payload)
    {
        if (!_isPlain)
            return _core.HasFlushes ? ProduceAndConfirm(ref payload, null) : ProduceWithHeaders(ref payload, null);
        long offset = _shared?.Append(ref payload, sizeof(T), isKnown: true) ?? LogAppender.Full;
        return offset >= 0 ? offset : _core.AppendWhenCapacity(ref payload, sizeof(T));
    }

    /// <summary>A message that may have headers, and that no flush follows.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    [SkipLocalsInit]
    private long ProduceWithHeaders(ref byte payload, MessageHeaders? headers)
    {
        Unsafe.SkipInit(out SmallHeaderBlock block);
        int length = _core.TryWriteBlock(headers, ref block);
        if (length < 0)
            return ProduceAndConfirm(ref payload, headers);
        long offset = _exclusive is not null
            ? _exclusive.Append(ref payload, sizeof(T), isKnown: true, block.Bytes(length))
            : _shared!.Append(ref payload, sizeof(T), isKnown: true, block.Bytes(length));
        return offset >= 0 ? offset : _core.AppendWhenCapacity(ref payload, sizeof(T), block.Bytes(length));
    }

    /// <summary>Keeps the extra work of flushes, traces and long keys out of the path of the other messages.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    [SkipLocalsInit]
    private long ProduceAndConfirm(ref byte payload, MessageHeaders? headers)
    {
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        ReadOnlySpan<byte> block = _core.WriteBlock(headers, scratch);
        return _core.Append(new MessagesToAppend(MemoryMarshal.CreateReadOnlySpan(ref payload, sizeof(T)), block));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceChecked(in T message, in ProduceOptions options) =>
        _core.Produce(new MessagesToAppend(BytesOf(in message)), options);
}

using System.Buffers;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Appends messages of any length. Threads, allocation and safety are as for <see cref="MappedFileProducer{T}"/>. A message fits
/// when its length + 8, and the length of its headers, is at most the segment's length and at most 256 MiB.
/// </summary>
public sealed unsafe class MappedFileProducer : IMappedFileProducer, IDisposable
{
    [ThreadStatic]
    private static ArrayBufferWriter<byte>? t_scratch;

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

    /// <summary>The length of the largest message without headers in bytes.</summary>
    public int MessageLengthMax => _core.Appender.PayloadLimit;

    /// <summary>Appends a message, which may be empty, and returns its offset.</summary>
    /// <param name="buffer">The message.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The message does not fit a segment; nothing was written.</exception>
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
    public long Produce(ReadOnlySpan<byte> buffer) => _exclusiveAtOnce is { } exclusive
        ? ProduceAtOnce(exclusive, buffer)
        : ProduceElsewhere(buffer);

    /// <inheritdoc cref="Produce(ReadOnlySpan{byte})"/>
    /// <param name="buffer">The message.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <exception cref="OperationCanceledException">Cancelled before anything was written, also while the call waited for
    /// consumers, or while it waited for its flush. The exception's message says which; in the last case the message stays
    /// appended.</exception>
    /// <exception cref="TimeoutException">Consumers did not make room in time, and nothing was appended; or the flush did not end
    /// in time, and the message stays appended, its durability unknown. The exception's message says which.</exception>
    public long Produce(ReadOnlySpan<byte> buffer, in ProduceOptions options) => _core.IsUnconfirmed(options)
        ? ProduceWithHeaders(buffer, options.Headers)
        : ProduceChecked(buffer, options);

    /// <summary>
    /// Serializes and appends a message. The serializer runs before anything is claimed, so an exception in it leaves the log
    /// unchanged. With an <see cref="IBufferedMessageSerializer{T}"/> nothing is allocated once the thread's buffer has grown.
    /// </summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="message">The message.</param>
    /// <param name="serializer">Turns the message into bytes.</param>
    /// <returns>The message's offset.</returns>
    public long Produce<TMessage>(TMessage message, IMessageSerializer<TMessage> serializer)
    {
        ArgumentNullException.ThrowIfNull(serializer);
        if (serializer is not IBufferedMessageSerializer<TMessage> buffered)
            return Produce(serializer.Serialize(message));
        ArrayBufferWriter<byte> scratch = TakeScratch();
        try
        {
            buffered.Serialize(message, scratch);
            return Produce(scratch.WrittenSpan);
        }
        finally
        {
            ReturnScratch(scratch);
        }
    }

    /// <inheritdoc cref="Produce{TMessage}(TMessage, IMessageSerializer{TMessage})"/>
    /// <param name="message">The message.</param>
    /// <param name="serializer">Turns the message into bytes.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <inheritdoc cref="Produce(ReadOnlySpan{byte}, in ProduceOptions)" path="/exception"/>
    public long Produce<TMessage>(
        TMessage message, IMessageSerializer<TMessage> serializer, in ProduceOptions options)
    {
        ArgumentNullException.ThrowIfNull(serializer);
        if (serializer is not IBufferedMessageSerializer<TMessage> buffered)
            return Produce(serializer.Serialize(message), options);
        ArrayBufferWriter<byte> scratch = TakeScratch();
        try
        {
            buffered.Serialize(message, scratch);
            return Produce(scratch.WrittenSpan, options);
        }
        finally
        {
            ReturnScratch(scratch);
        }
    }

    /// <summary>
    /// Appends one message that is in several pieces, for example what a pipe has read. The pieces go to the mapping one by
    /// one; nothing joins them first, and nothing is allocated. The message becomes readable as a whole or not at all, as any
    /// other. In Shared mode readers wait at it during the copy.
    /// </summary>
    /// <param name="message">The message; may be empty.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="InvalidOperationException">The pieces were changed during the call; nothing was appended.</exception>
    /// <inheritdoc cref="Produce(ReadOnlySpan{byte}, in ProduceOptions)" path="/exception"/>
    public long Produce(in ReadOnlySequence<byte> message, in ProduceOptions options = default)
    {
        if (message.IsSingleSegment)
            return Produce(message.FirstSpan, options);
        CallDeadline deadline = BeginJoining(options);
        using MessageClaim claim = OpenClaim(message.Length, options.Headers, deadline);
        Span<byte> left = claim.Span;
        foreach (ReadOnlyMemory<byte> part in message)
            left = Put(part.Span, left);
        return Publish(claim, left, options, deadline);
    }

    /// <summary>
    /// Appends one message that is made of parts, for example a header and a body, as
    /// <see cref="Produce(in ReadOnlySequence{byte}, in ProduceOptions)"/> does.
    /// </summary>
    /// <param name="parts">The parts; none of them makes an empty message.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <returns>The message's offset.</returns>
    /// <inheritdoc cref="Produce(in ReadOnlySequence{byte}, in ProduceOptions)" path="/exception"/>
    public long ProduceJoined(ReadOnlySpan<ReadOnlyMemory<byte>> parts, in ProduceOptions options = default)
    {
        long length = 0;
        foreach (ReadOnlyMemory<byte> part in parts)
            length += part.Length;
        CallDeadline deadline = BeginJoining(options);
        using MessageClaim claim = OpenClaim(length, options.Headers, deadline);
        Span<byte> left = claim.Span;
        foreach (ReadOnlyMemory<byte> part in parts)
            left = Put(part.Span, left);
        return Publish(claim, left, options, deadline);
    }

    /// <inheritdoc cref="ProduceJoined(ReadOnlySpan{ReadOnlyMemory{byte}}, in ProduceOptions)"/>
    /// <param name="first">The message's beginning.</param>
    /// <param name="second">What follows it.</param>
    /// <param name="third">What follows that.</param>
    /// <param name="options">Options of this call alone.</param>
    public long ProduceJoined(
        ReadOnlySpan<byte> first,
        ReadOnlySpan<byte> second,
        ReadOnlySpan<byte> third = default,
        in ProduceOptions options = default)
    {
        CallDeadline deadline = BeginJoining(options);
        long length = (long)first.Length + second.Length + third.Length;
        using MessageClaim claim = OpenClaim(length, options.Headers, deadline);
        Span<byte> left = Put(third, Put(second, Put(first, claim.Span)));
        return Publish(claim, left, options, deadline);
    }

    /// <summary>
    /// Appends a message that the callback writes in place, in the mapping. An exception in the callback abandons the message. In
    /// Shared mode readers wait at the message until the callback returns, so it should be short.
    /// </summary>
    /// <typeparam name="TState">The type of the state.</typeparam>
    /// <param name="length">The message's length in bytes.</param>
    /// <param name="state">Passed to the callback.</param>
    /// <param name="fill">Writes the whole span; bytes that it leaves out are zero or older bytes.</param>
    /// <returns>The message's offset.</returns>
    public long Produce<TState>(int length, TState state, SpanAction<byte, TState> fill)
        where TState : allows ref struct
    {
        ArgumentNullException.ThrowIfNull(fill);
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        using MessageClaim claim = DangerousClaim(length);
        fill(claim.Span, state);
        return claim.Publish(length);
    }

    /// <summary>
    /// Reserves a message to fill in place. While the claim is open, every reader stops at it and this thread's other calls on
    /// this queue throw. Dispose without Publish abandons it. Dangerous: the thread that opened the claim must end it.
    /// </summary>
    /// <param name="lengthMax">The largest number of bytes that will be published.</param>
    /// <param name="headers">The message's headers, as they are at this call; null for none.</param>
    /// <returns>The claim.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The length does not fit a segment.</exception>
    public MessageClaim DangerousClaim(int lengthMax, MessageHeaders? headers = null)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(lengthMax);
        return new MessageClaim(_core, lengthMax, headers, CallDeadline.Endless);
    }

    /// <summary>
    /// Appends a message. Returns false when consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind: then
    /// nothing was appended, whatever <see cref="MappedFileQueueOptions.FullMode"/> says.
    /// </summary>
    /// <param name="buffer">The message.</param>
    /// <returns>Whether it was appended.</returns>
    [SkipLocalsInit]
    public bool TryProduce(ReadOnlySpan<byte> buffer)
    {
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return _core.TryAppend(new MessagesToAppend(buffer, _core.WriteBlock(null, scratch)));
    }

    /// <summary>Appends messages that become readable all at once or not at all.</summary>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <returns>The first message's offset; the tail when there is none.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The batch with its headers does not fit a segment; nothing was
    /// written.</exception>
    [SkipLocalsInit]
    public long ProduceBatch(ReadOnlySpan<ReadOnlyMemory<byte>> messages)
    {
        if (messages.IsEmpty)
            return _core.EndOfNothing();
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return _core.Append(new MessagesToAppend(messages, _core.WriteBlock(null, scratch)));
    }

    /// <inheritdoc cref="ProduceBatch(ReadOnlySpan{ReadOnlyMemory{byte}})"/>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <param name="options">Options of this call alone. Each message gets its headers.</param>
    /// <inheritdoc cref="Produce(ReadOnlySpan{byte}, in ProduceOptions)" path="/exception"/>
    public long ProduceBatch(ReadOnlySpan<ReadOnlyMemory<byte>> messages, in ProduceOptions options) =>
        _core.Produce(new MessagesToAppend(messages), options);

    /// <inheritdoc cref="ProduceBatch(ReadOnlySpan{ReadOnlyMemory{byte}}, in ProduceOptions)"/>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <param name="headers">The headers of each message, null for none; they take the place of those in the options.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <exception cref="ArgumentException">There are more or fewer headers than messages.</exception>
    public long ProduceBatch(
        ReadOnlySpan<ReadOnlyMemory<byte>> messages,
        ReadOnlySpan<MessageHeaders?> headers,
        in ProduceOptions options = default)
    {
        _core.Check(options);
        MessagesToAppend batch = _core.WithHeaders(new MessagesToAppend(messages), headers);
        return messages.IsEmpty ? _core.EndOfNothing() : _core.Append(batch, options);
    }

    /// <summary>
    /// Appends a message before it returns. The result is complete at PageCache and Interval; at Group it completes when a flush
    /// has covered the message. Allocates nothing. Await the result once.
    /// <para>When consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind, the call copies the message,
    /// which allocates, and returns. The result completes when the message is appended. No thread waits for it alone, and
    /// messages that wait are appended in the order of the calls.</para>
    /// </summary>
    /// <param name="buffer">The message.</param>
    /// <param name="cancellationToken">When cancelled before the call, or while the message waits for consumers, nothing is
    /// written. When cancelled later, the message stays appended; its durability is unknown.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="QueueFullException">Consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind, and
    /// <see cref="MappedFileQueueOptions.FullMode"/> is Throw; nothing was appended. With Wait the call waits.</exception>
    public ValueTask<long> ProduceAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(cancellationToken);
        return _core.MayPend
            ? ProduceAsync(buffer, new ProduceOptions { CancellationToken = cancellationToken })
            : ValueTask.FromResult(Produce(buffer.Span));
    }

    /// <inheritdoc cref="ProduceAsync(ReadOnlyMemory{byte}, CancellationToken)"/>
    /// <param name="buffer">The message.</param>
    /// <param name="options">Options of this call alone. A timeout allocates, unless the result is complete at once.</param>
    /// <exception cref="OperationCanceledException">As with the cancellation token of the other form.</exception>
    /// <exception cref="TimeoutException">Consumers did not make room in time, and nothing was appended; or the flush did not end
    /// in time, and the message stays appended, its durability unknown. The exception's message says which.</exception>
    public ValueTask<long> ProduceAsync(ReadOnlyMemory<byte> buffer, in ProduceOptions options) =>
        AppendAsync(buffer.Span, options);

    /// <summary>
    /// Serializes a message before it returns, and appends it as
    /// <see cref="ProduceAsync(ReadOnlyMemory{byte}, in ProduceOptions)"/> does. An exception of the serializer leaves the log
    /// unchanged. With an <see cref="IBufferedMessageSerializer{T}"/> nothing is allocated once the thread's buffer has grown.
    /// </summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="message">The message.</param>
    /// <param name="serializer">Turns the message into bytes.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <returns>The message's offset.</returns>
    /// <inheritdoc cref="ProduceAsync(ReadOnlyMemory{byte}, in ProduceOptions)" path="/exception"/>
    public ValueTask<long> ProduceAsync<TMessage>(
        TMessage message, IMessageSerializer<TMessage> serializer, in ProduceOptions options)
    {
        ArgumentNullException.ThrowIfNull(serializer);
        if (options.CancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(options.CancellationToken);
        if (serializer is not IBufferedMessageSerializer<TMessage> buffered)
            return AppendAsync(serializer.Serialize(message), options);
        ArrayBufferWriter<byte> scratch = TakeScratch();
        try
        {
            buffered.Serialize(message, scratch);
            return AppendAsync(scratch.WrittenSpan, options);
        }
        finally
        {
            ReturnScratch(scratch);
        }
    }

    /// <inheritdoc cref="ProduceAsync{TMessage}(TMessage, IMessageSerializer{TMessage}, in ProduceOptions)"/>
    /// <param name="message">The message.</param>
    /// <param name="serializer">Turns the message into bytes.</param>
    /// <param name="cancellationToken">As for a message of bytes.</param>
    public ValueTask<long> ProduceAsync<TMessage>(
        TMessage message, IMessageSerializer<TMessage> serializer, CancellationToken cancellationToken = default) =>
        ProduceAsync(message, serializer, new ProduceOptions { CancellationToken = cancellationToken });

    /// <summary>
    /// Appends messages that become readable all at once or not at all, as
    /// <see cref="ProduceAsync(ReadOnlyMemory{byte}, in ProduceOptions)"/> appends one: before it returns, or, when consumers are
    /// too far behind, from a copy when there is room for all of them.
    /// </summary>
    /// <param name="messages">The messages; an empty list appends nothing.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <returns>The first message's offset; the tail when there is none.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The batch with its headers does not fit a segment; nothing was
    /// written.</exception>
    /// <inheritdoc cref="ProduceAsync(ReadOnlyMemory{byte}, in ProduceOptions)" path="/exception"/>
    public ValueTask<long> ProduceBatchAsync(ReadOnlyMemory<ReadOnlyMemory<byte>> messages, in ProduceOptions options) =>
        _core.ProduceAsync(new MessagesToAppend(messages.Span), options);

    /// <inheritdoc cref="ProduceBatchAsync(ReadOnlyMemory{ReadOnlyMemory{byte}}, in ProduceOptions)"/>
    /// <param name="messages">The messages; an empty list appends nothing.</param>
    /// <param name="cancellationToken">As for one message.</param>
    public ValueTask<long> ProduceBatchAsync(
        ReadOnlyMemory<ReadOnlyMemory<byte>> messages, CancellationToken cancellationToken = default) =>
        ProduceBatchAsync(messages, new ProduceOptions { CancellationToken = cancellationToken });

    /// <summary>
    /// Completes when everything published before <paramref name="upTo"/>, and the message that starts there, is on disk:
    /// <c>FlushAsync(Produce(m))</c> covers m. Only what is published at the call counts. Works at every level. Calls at the same
    /// time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="upTo">An offset; the offset that Produce returned covers that message.</param>
    /// <param name="cancellationToken">Ends the wait; a flush that has begun continues.</param>
    /// <returns>The new durable offset.</returns>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        _core.FlushAsync(upTo, cancellationToken);

    /// <summary>
    /// Completes when everything published before the call, by any process, is on disk. Works at every level. Calls at the same
    /// time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait; a flush that has begun continues.</param>
    /// <returns>The new durable offset.</returns>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim and would wait for itself.</exception>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        _core.FlushAsync(long.MaxValue, cancellationToken);

    /// <summary>
    /// Allocates and touches room for a number of bytes of the log ahead of the tail, so that appends meet no page fault.
    /// </summary>
    /// <param name="bytes">The length of the frames: each message plus 8 bytes of header, rounded up to 8.</param>
    /// <exception cref="QueueDiskException">The disk does not have that much room.</exception>
    /// <exception cref="ObjectDisposedException">The queue was disposed meanwhile.</exception>
    public void Prepare(long bytes) => _core.Prepare(bytes);

    void IMappedFileProducer.Produce(ReadOnlySpan<byte> buffer) => Produce(buffer);

    void IMappedFileProducer.Produce<T>(T message, IMessageSerializer<T> serializer) => Produce(message, serializer);

    /// <summary>Ends the producer after its running calls have ended. Abandons an open claim of this thread.</summary>
    public void Dispose() => _core.Dispose(this);

    /// <summary>The buffer is taken while in use: a serializer that produces another message gets a buffer of its own.</summary>
    private static ArrayBufferWriter<byte> TakeScratch()
    {
        ArrayBufferWriter<byte> scratch = t_scratch ?? new ArrayBufferWriter<byte>(512);
        t_scratch = null;
        return scratch;
    }

    private static void ReturnScratch(ArrayBufferWriter<byte> scratch)
    {
        scratch.ResetWrittenCount();
        t_scratch = scratch;
    }

    /// <summary>Before the claim: the time of the call counts from here.</summary>
    private CallDeadline BeginJoining(in ProduceOptions options)
    {
        _core.Check(options);
        return ProducerCore.DeadlineOf(options);
    }

    private MessageClaim OpenClaim(long length, MessageHeaders? headers, CallDeadline deadline) =>
        new(_core, (int)Math.Min(length, int.MaxValue), headers, deadline);

    private ValueTask<long> AppendAsync(ReadOnlySpan<byte> message, in ProduceOptions options) =>
        _core.ProduceAsync(new MessagesToAppend(message), options);

    /// <summary>Copies a part; returns the room after it.</summary>
    private static Span<byte> Put(ReadOnlySpan<byte> part, Span<byte> left)
    {
        if (part.Length > left.Length)
            throw Changed();
        part.CopyTo(left);
        return left[part.Length..];
    }

    /// <summary>Publishes a claim that has its parts. Its copy of the claim is the one that ends it.</summary>
    private long Publish(MessageClaim claim, Span<byte> left, in ProduceOptions options, CallDeadline deadline)
    {
        if (!left.IsEmpty)
            throw Changed();
        long offset = claim.PublishUnconfirmed(claim.Span.Length, out long end);
        _core.Confirm(end, 1, options.Durability, deadline);
        return offset;
    }

    private static InvalidOperationException Changed() =>
        new("Another thread changed the message during the append; nothing was appended.");

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceAtOnce(ExclusiveAppender exclusive, ReadOnlySpan<byte> buffer) =>
        exclusive.Append(ref MemoryMarshal.GetReference(buffer), buffer.Length) is >= 0 and var offset
            ? offset
            : ProduceElsewhere(buffer);

    /// <summary>
    /// Everything but a message that an Exclusive producer appends at once: a shared log, flushes, stamps, consumers too far
    /// behind.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceElsewhere(ReadOnlySpan<byte> buffer)
    {
        if (!_isPlain)
            return _core.HasFlushes ? ProduceAndConfirm(buffer, null) : ProduceWithHeaders(buffer, null);
        ref byte payload = ref MemoryMarshal.GetReference(buffer);
        long offset = _shared?.Append(ref payload, buffer.Length) ?? LogAppender.Full;
        return offset >= 0 ? offset : _core.AppendWhenCapacity(ref payload, buffer.Length);
    }

    /// <summary>A message that may have headers, and that no flush follows.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    [SkipLocalsInit]
    private long ProduceWithHeaders(ReadOnlySpan<byte> buffer, MessageHeaders? headers)
    {
        Unsafe.SkipInit(out SmallHeaderBlock block);
        int length = _core.TryWriteBlock(headers, ref block);
        if (length < 0)
            return ProduceAndConfirm(buffer, headers);
        ref byte payload = ref MemoryMarshal.GetReference(buffer);
        long offset = _exclusive is not null
            ? _exclusive.Append(ref payload, buffer.Length, block: block.Bytes(length))
            : _shared!.Append(ref payload, buffer.Length, block: block.Bytes(length));
        return offset >= 0 ? offset : _core.AppendWhenCapacity(ref payload, buffer.Length, block.Bytes(length));
    }

    /// <summary>Keeps the extra work of flushes, traces and long keys out of the path of the other messages.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    [SkipLocalsInit]
    private long ProduceAndConfirm(ReadOnlySpan<byte> buffer, MessageHeaders? headers)
    {
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        return _core.Append(new MessagesToAppend(buffer, _core.WriteBlock(headers, scratch)));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceChecked(ReadOnlySpan<byte> buffer, in ProduceOptions options) =>
        _core.Produce(new MessagesToAppend(buffer), options);
}

using System.Buffers;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Frames;

namespace MappedFileQueues;

/// <summary>
/// Appends messages of any length. Threads, allocation and safety are as for <see cref="MappedFileProducer{T}"/>. A message fits
/// when its length + 8 is at most the segment's length and at most 256 MiB.
/// </summary>
public sealed unsafe class MappedFileProducer : IMappedFileProducer, IDisposable
{
    [ThreadStatic]
    private static ArrayBufferWriter<byte>? t_scratch;

    private readonly ProducerCore _core;
    private readonly ExclusiveAppender? _exclusive;
    private readonly SharedAppender? _shared;
    private readonly bool _hasFlushes;

    internal MappedFileProducer(QueueCore queue)
    {
        _core = new ProducerCore(queue);
        _exclusive = _core.Exclusive;
        _shared = _core.Shared;
        _hasFlushes = _core.HasFlushes;
    }

    /// <summary>The offset at which the next message will be written, as far as is known now.</summary>
    public long Offset => _core.Appender.TailOffset;

    /// <summary>Everything before it is on disk, whichever process flushed it.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>The length of the largest message in bytes.</summary>
    public int MessageLengthMax => _core.Appender.PayloadLimit;

    /// <summary>Appends a message, which may be empty, and returns its offset.</summary>
    /// <param name="buffer">The message.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The message does not fit a segment; nothing was written.</exception>
    /// <exception cref="ObjectDisposedException">The producer or its queue is disposed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim on this producer.</exception>
    /// <exception cref="QueueDiskException">The disk is full or failed; nothing was appended.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged where the message would go, or damage before it has prevented
    /// flushes for two intervals; nothing was appended.</exception>
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
    public long Produce(ReadOnlySpan<byte> buffer)
    {
        if (_hasFlushes)
            return ProduceAndConfirm(buffer);
        ref byte payload = ref MemoryMarshal.GetReference(buffer);
        long offset = _exclusive is not null
            ? _exclusive.Append(ref payload, buffer.Length)
            : _shared!.Append(ref payload, buffer.Length);
        return offset >= 0 ? offset : _core.AppendWhenRoom(ref payload, buffer.Length);
    }

    /// <inheritdoc cref="Produce(ReadOnlySpan{byte})"/>
    /// <param name="buffer">The message.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <exception cref="OperationCanceledException">Cancelled before anything was written, also while the call waited for
    /// consumers, or while it waited for its flush. The exception's message says which; in the last case the message stays
    /// appended.</exception>
    /// <exception cref="TimeoutException">Consumers did not make room in time, and nothing was appended; or the flush did not end
    /// in time, and the message stays appended, its durability unknown. The exception's message says which.</exception>
    public long Produce(ReadOnlySpan<byte> buffer, in ProduceOptions options)
    {
        _core.Check(options);
        long offset = TryAppend(buffer);
        if (offset < 0)
            return _core.AppendWhenRoom(ref MemoryMarshal.GetReference(buffer), buffer.Length, options);
        _core.Confirm(offset + FrameHeader.FrameLength(buffer.Length), 1, options);
        return offset;
    }

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
        // The buffer is taken while in use: a serializer that produces another message gets a buffer of its own.
        ArrayBufferWriter<byte> scratch = t_scratch ?? new ArrayBufferWriter<byte>(512);
        t_scratch = null;
        try
        {
            buffered.Serialize(message, scratch);
            return Produce(scratch.WrittenSpan);
        }
        finally
        {
            scratch.ResetWrittenCount();
            t_scratch = scratch;
        }
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
    /// <returns>The claim.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The length does not fit a segment.</exception>
    public MessageClaim DangerousClaim(int lengthMax)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(lengthMax);
        return new MessageClaim(_core, lengthMax);
    }

    /// <summary>
    /// Appends a message. Returns false when consumers are <see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/> behind: then
    /// nothing was appended, whatever <see cref="MappedFileQueueOptions.FullMode"/> says.
    /// </summary>
    /// <param name="buffer">The message.</param>
    /// <returns>Whether it was appended.</returns>
    public bool TryProduce(ReadOnlySpan<byte> buffer)
    {
        if (_hasFlushes)
            _core.ThrowIfOwnClaimIsOpen();
        long offset = TryAppend(buffer);
        if (offset < 0)
            return false;
        if (_hasFlushes)
            _core.Confirm(offset + FrameHeader.FrameLength(buffer.Length), 1);
        return true;
    }

    /// <summary>Appends messages that become readable all at once or not at all.</summary>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <returns>The first message's offset; the tail when there is none.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The batch with its headers does not fit a segment; nothing was
    /// written.</exception>
    public long ProduceBatch(ReadOnlySpan<ReadOnlyMemory<byte>> messages)
    {
        if (messages.IsEmpty)
            return Offset;
        if (_hasFlushes)
            _core.ThrowIfOwnClaimIsOpen();
        long offset = _core.Appender.AppendBatch(messages);
        if (offset < 0)
            offset = _core.AppendBatchWhenRoom(messages);
        if (_hasFlushes)
            _core.Confirm(offset + BatchLayout.Length(messages), messages.Length);
        return offset;
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
            ? _core.AppendAsync(buffer.Span, cancellationToken)
            : ValueTask.FromResult(Produce(buffer.Span));
    }

    /// <summary>
    /// Completes when everything published before <paramref name="upTo"/>, and the message that starts there, is on disk:
    /// <c>FlushAsync(Produce(m))</c> covers m. Only what is published at the call counts. Works at every level. Calls at the same
    /// time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="upTo">An offset; the offset that Produce returned covers that message.</param>
    /// <param name="cancellationToken">Ends the wait; a flush that has begun continues.</param>
    /// <returns>The new confirmed offset.</returns>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        _core.FlushAsync(upTo, cancellationToken);

    /// <summary>
    /// Completes when everything published before the call, by any process, is on disk. Works at every level. Calls at the same
    /// time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait; a flush that has begun continues.</param>
    /// <returns>The new confirmed offset.</returns>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim and would wait for itself.</exception>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) => _core.FlushAsync(cancellationToken);

    /// <summary>
    /// Allocates and touches room for a number of bytes of the log ahead of the tail, so that appends meet no page fault.
    /// </summary>
    /// <param name="bytes">The length of the frames: each message plus 8 bytes of header, rounded up to 8.</param>
    /// <exception cref="QueueDiskException">The disk does not have that much room.</exception>
    public void Prepare(long bytes) => _core.Prepare(bytes);

    /// <summary>Sets the offset at which an empty store starts.</summary>
    /// <param name="offset">A multiple of 8.</param>
    /// <exception cref="InvalidOperationException">The store is no longer empty.</exception>
    public void AdjustOffset(long offset) => _core.AdjustOffset(offset);

    void IMappedFileProducer.Produce(ReadOnlySpan<byte> buffer) => Produce(buffer);

    void IMappedFileProducer.Produce<T>(T message, IMessageSerializer<T> serializer) => Produce(message, serializer);

    /// <summary>Ends the producer after its running calls have ended. Abandons an open claim of this thread.</summary>
    public void Dispose() => _core.Dispose(this);

    /// <summary>Returns a negative number when there is no room.</summary>
    private long TryAppend(ReadOnlySpan<byte> buffer)
    {
        ref byte payload = ref MemoryMarshal.GetReference(buffer);
        return _exclusive is not null
            ? _exclusive.Append(ref payload, buffer.Length)
            : _shared!.Append(ref payload, buffer.Length);
    }

    /// <summary>Keeps the extra work of Group and counted flushes out of the path of the other messages.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceAndConfirm(ReadOnlySpan<byte> buffer)
    {
        _core.ThrowIfOwnClaimIsOpen();
        long offset = TryAppend(buffer);
        if (offset < 0)
            offset = _core.AppendWhenRoom(ref MemoryMarshal.GetReference(buffer), buffer.Length);
        _core.Confirm(offset + FrameHeader.FrameLength(buffer.Length), 1);
        return offset;
    }
}

using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;

namespace MappedFileQueues;

/// <summary>
/// Appends structs. In <see cref="ProducerMode.Shared"/> any number of threads may use one producer; in
/// <see cref="ProducerMode.Exclusive"/> one at a time. Appending allocates nothing. A message that Produce returned from
/// survives the death of every process.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed unsafe class MappedFileProducer<T> : IMappedFileProducer<T>, IDisposable
    where T : unmanaged
{
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

    /// <summary>Where the next message will be written, as far as is known now.</summary>
    public long Offset => _core.Appender.TailOffset;

    /// <summary>Everything before it is on disk, by whose flush ever.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Appends a message; returns its offset.</summary>
    /// <param name="message">The message; <c>Produce(ref x)</c> and <c>Produce(in x)</c>.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="ObjectDisposedException">The producer or its queue is disposed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim on this producer.</exception>
    /// <exception cref="QueueDiskException">The disk is full or failed; nothing was appended.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged where the message would go, or before it, so that nothing was
    /// flushed for two intervals; nothing was appended.</exception>
    /// <exception cref="QueueInUseException">Another process keeps the lock under which segments are made; nothing was
    /// appended.</exception>
    /// <exception cref="QueuePoisonedException">A flush of some process has failed; the message may be published all the
    /// same.</exception>
    /// <exception cref="ProducerFencedException">The claim was taken away; nothing was appended.</exception>
    /// <remarks>
    /// When the level is Group, or a counted flush is due, and that flush fails, QueueDiskException (who led it) and
    /// QueuePoisonedException (who waited) say nothing against the message: it may be published all the same.
    /// </remarks>
    public long Produce(ref readonly T message)
    {
        ref byte payload = ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message));
        if (_hasFlushes)
            return ProduceAndConfirm(ref payload);
        return _exclusive is not null
            ? _exclusive.Append(ref payload, sizeof(T))
            : _shared!.Append(ref payload, sizeof(T));
    }

    /// <inheritdoc cref="Produce(ref readonly T)"/>
    public long Produce(T message) => Produce(ref message);

    /// <inheritdoc cref="Produce(ref readonly T)"/>
    /// <param name="message">The message.</param>
    /// <param name="options">For this call alone.</param>
    /// <exception cref="OperationCanceledException">Cancelled: before anything was written, or while the call waited for its
    /// flush; its message says so, and the message stays appended then.</exception>
    /// <exception cref="TimeoutException">The flush did not end in time; the message stays appended.</exception>
    public long Produce(in T message, in ProduceOptions options)
    {
        _core.Check(options);
        long offset = Append(in message);
        _core.Confirm(offset + FrameLength, 1, options);
        return offset;
    }

    /// <summary>Appends a message; false when the queue is full by its own limits (this version has none).</summary>
    /// <param name="message">The message.</param>
    /// <returns>Whether it was appended.</returns>
    public bool TryProduce(in T message)
    {
        Produce(in message);
        return true;
    }

    /// <summary>Appends messages that become readable all at once, or not at all.</summary>
    /// <param name="messages">The messages; none does nothing.</param>
    /// <returns>The first one's offset; the tail when there is none.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The batch with its headers does not fit a segment; nothing was
    /// written.</exception>
    public long ProduceBatch(ReadOnlySpan<T> messages)
    {
        if (messages.IsEmpty)
            return Offset;
        if (_hasFlushes)
            _core.ThrowIfOwnClaimIsOpen();
        ref byte first = ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in messages[0]));
        long offset = _core.Appender.AppendBatch(ref first, sizeof(T), messages.Length);
        if (_hasFlushes)
            _core.Confirm(offset + (FrameLength * messages.Length), messages.Length);
        return offset;
    }

    /// <summary>
    /// Appends a message at once; the result completes at the durability level: at PageCache and Interval it is complete, at
    /// Group it completes when a flush has covered the message. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="message">The message.</param>
    /// <param name="cancellationToken">Cancelled before the call, nothing is written; afterwards the message stays appended,
    /// and its durability is not known yet.</param>
    /// <returns>The message's offset.</returns>
    public ValueTask<long> ProduceAsync(T message, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(cancellationToken);
        if (!_hasFlushes)
            return ValueTask.FromResult(Produce(ref message));
        _core.ThrowIfOwnClaimIsOpen();
        long offset = Append(in message);
        return _core.ConfirmAsync(offset, offset + FrameLength, cancellationToken);
    }

    /// <summary>
    /// Completes when everything before <paramref name="upTo"/>, and the message that begins there, is on disk, as far as it is
    /// published at the call: <c>FlushAsync(Produce(m))</c> covers m. At every level; calls at one time share a flush. Allocates
    /// nothing. Await the result once.
    /// </summary>
    /// <param name="upTo">An offset; what Produce returned covers that message.</param>
    /// <param name="cancellationToken">Ends the wait; a flush that began goes on.</param>
    /// <returns>The new confirmed offset.</returns>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        _core.FlushAsync(upTo, cancellationToken);

    /// <summary>
    /// Completes when everything that is published at the call is on disk, whichever process published it. At every level; calls
    /// at one time share a flush. Allocates nothing. Await the result once.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait; a flush that began goes on.</param>
    /// <returns>The new confirmed offset.</returns>
    /// <exception cref="QueuePoisonedException">A flush of some process has failed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim and would wait for itself.</exception>
    public ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) => _core.FlushAsync(cancellationToken);

    /// <summary>
    /// Allocates and touches room for this many bytes of the log ahead of the tail, so that appends meet no page fault.
    /// </summary>
    /// <param name="bytes">Frames, that is messages with 8 bytes of header each, rounded up to 8.</param>
    /// <exception cref="QueueDiskException">The disk has not that much room.</exception>
    public void Prepare(long bytes) => _core.Prepare(bytes);

    /// <summary>Lets an empty store begin at another offset.</summary>
    /// <param name="offset">A multiple of 8.</param>
    /// <exception cref="InvalidOperationException">The store is not empty any more.</exception>
    public void AdjustOffset(long offset) => _core.AdjustOffset(offset);

    void IMappedFileProducer<T>.Produce(ref T message) => Produce(ref message);

    /// <summary>Ends the producer: calls under way end first. An open claim of this thread is abandoned.</summary>
    public void Dispose() => _core.Dispose(this);

    private static long FrameLength => FrameHeader.FrameLength(sizeof(T));

    private long Append(ref readonly T message)
    {
        ref byte payload = ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message));
        return _exclusive is not null
            ? _exclusive.Append(ref payload, sizeof(T))
            : _shared!.Append(ref payload, sizeof(T));
    }

    /// <summary>What a message costs more at Group, or with counted flushes, is kept out of the path of the others.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private long ProduceAndConfirm(ref byte payload)
    {
        _core.ThrowIfOwnClaimIsOpen();
        long offset = Append(ref Unsafe.As<byte, T>(ref payload));
        _core.Confirm(offset + FrameLength, 1);
        return offset;
    }
}

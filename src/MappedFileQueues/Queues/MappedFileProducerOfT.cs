using System.Runtime.CompilerServices;
using MappedFileQueues.Log;

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
    private readonly bool _counts;

    internal MappedFileProducer(QueueCore queue)
    {
        _core = new ProducerCore(queue);
        _exclusive = _core.Exclusive;
        _shared = _core.Shared;
        _counts = _core.CountsFlushes;
    }

    /// <summary>Where the next message will be written, as far as is known now.</summary>
    public long Offset => _core.Appender.TailOffset;

    /// <summary>Everything before it is on disk.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Appends a message; returns its offset.</summary>
    /// <param name="message">The message; <c>Produce(ref x)</c> and <c>Produce(in x)</c>.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="ObjectDisposedException">The producer or its queue is disposed.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim on this producer.</exception>
    /// <exception cref="QueueDiskException">The disk is full or failed; nothing was appended.</exception>
    /// <exception cref="QueuePoisonedException">A flush of some process has failed; the message may be published all the
    /// same.</exception>
    /// <exception cref="ProducerFencedException">The claim was taken away; nothing was appended.</exception>
    public long Produce(ref readonly T message)
    {
        ref byte payload = ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message));
        long offset = _exclusive is not null
            ? _exclusive.Append(ref payload, sizeof(T))
            : _shared!.Append(ref payload, sizeof(T));
        if (_counts)
            _core.CountProduced(1);
        return offset;
    }

    /// <inheritdoc cref="Produce(ref readonly T)"/>
    public long Produce(T message) => Produce(ref message);

    /// <inheritdoc cref="Produce(ref readonly T)"/>
    /// <param name="message">The message.</param>
    /// <param name="options">For this call alone.</param>
    /// <exception cref="OperationCanceledException">Cancelled before anything was written.</exception>
    public long Produce(in T message, in ProduceOptions options)
    {
        options.CancellationToken.ThrowIfCancellationRequested();
        return Produce(in message);
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
        ref byte first = ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in messages[0]));
        long offset = _core.Appender.AppendBatch(ref first, sizeof(T), messages.Length);
        if (_counts)
            _core.CountProduced(messages.Length);
        return offset;
    }

    /// <summary>Appends a message; completes at the durability level, which at PageCache is at once.</summary>
    /// <param name="message">The message.</param>
    /// <param name="cancellationToken">Looked at before anything is written.</param>
    /// <returns>The message's offset.</returns>
    public ValueTask<long> ProduceAsync(T message, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(cancellationToken);
        return ValueTask.FromResult(Produce(ref message));
    }

    /// <summary>Flushes on a pool thread until everything before <paramref name="upTo"/> is on disk.</summary>
    /// <param name="upTo">An offset; what Produce returned plus one covers that message.</param>
    /// <param name="cancellationToken">Cancelled after the flush began it still goes on.</param>
    /// <returns>The new confirmed offset.</returns>
    public ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        _core.FlushAsync(upTo, cancellationToken);

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
}

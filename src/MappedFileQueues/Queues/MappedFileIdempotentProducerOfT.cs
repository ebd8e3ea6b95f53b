using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Log.Appending;

namespace MappedFileQueues;

/// <summary>
/// Appends structs under an id, each with a sequence number, so that a repetition after a crash is told apart: whatever is killed
/// or loses power, no sequence that is in the log is appended again. One thread at a time, in every mode; an id has one holder
/// across all processes. A message takes 24 bytes more than one of <see cref="MappedFileProducer{T}"/>. Appending allocates
/// nothing.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed unsafe class MappedFileIdempotentProducer<T> : IDisposable
    where T : unmanaged
{
    private readonly IdempotentCore _core;

    internal MappedFileIdempotentProducer(StoreEngine queue, string id) => _core = new IdempotentCore(queue, id);

    /// <summary>The id.</summary>
    public string Id => _core.Id;

    /// <summary>
    /// The highest sequence that is in the log; 0 for none. What to continue after when the producer was opened. Any thread.
    /// </summary>
    public ulong LastSequence => _core.LastSequence;

    /// <summary>Everything before it is on disk, whichever process flushed it.</summary>
    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Appends a message with the sequence after <see cref="LastSequence"/>.</summary>
    /// <param name="message">The message.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="ObjectDisposedException">The producer or its queue is disposed.</exception>
    /// <exception cref="InvalidOperationException">Another call of this producer is under way, or the last sequence is the
    /// highest one; nothing was appended.</exception>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another; the message may be published
    /// nevertheless. Open the producer again: it finds in the log what it has appended.</exception>
    /// <inheritdoc cref="MappedFileProducer{T}.Produce(ref readonly T)" path="/exception"/>
    public long Produce(in T message) => _core.Append(BytesOf(in message), default);

    /// <inheritdoc cref="Produce(in T)"/>
    /// <param name="message">The message.</param>
    /// <param name="options">Options of this call alone.</param>
    public long Produce(in T message, in ProduceOptions options) => _core.Append(BytesOf(in message), options);

    /// <summary>
    /// Appends a message, unless its sequence or a higher one is in the log. Sequences need not be dense. At the level Group the
    /// call returns, with either result, when the message is on disk. If its flush fails, the message is in the log all the same,
    /// and a repetition returns false.
    /// </summary>
    /// <param name="message">The message.</param>
    /// <param name="sequence">Its sequence; at least 1.</param>
    /// <returns>False for a repetition: nothing was appended.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The sequence is 0.</exception>
    /// <inheritdoc cref="Produce(in T)" path="/exception"/>
    public bool TryProduce(in T message, ulong sequence)
    {
        if (!_core.TryBeginAtOnce(sequence))
            return _core.TryAppend(BytesOf(in message), sequence, default);
        try
        {
            if (AppendAtOnce(in message, sequence))
                return true;
        }
        catch (Exception error)
        {
            _core.EndFailed(error);
            throw;
        }

        return _core.TryAppend(BytesOf(in message), sequence, default);
    }

    /// <inheritdoc cref="TryProduce(in T, ulong)"/>
    /// <param name="message">The message.</param>
    /// <param name="sequence">Its sequence; at least 1.</param>
    /// <param name="options">Options of this call alone.</param>
    public bool TryProduce(in T message, ulong sequence, in ProduceOptions options) =>
        _core.TryAppend(BytesOf(in message), sequence, options);

    /// <summary>
    /// As <see cref="TryProduce(in T, ulong, in ProduceOptions)"/>,
    /// without blocking a thread: the call waits for consumers that are too far behind, and for its flush. Await it before the
    /// next call. Allocates.
    /// </summary>
    /// <param name="message">The message.</param>
    /// <param name="sequence">Its sequence; at least 1.</param>
    /// <param name="options">Options of this call alone.</param>
    /// <returns>False for a repetition: nothing was appended.</returns>
    /// <inheritdoc cref="TryProduce(in T, ulong, in ProduceOptions)" path="/exception"/>
    public ValueTask<bool> TryProduceAsync(T message, ulong sequence, in ProduceOptions options) =>
        _core.TryAppendAsync(MemoryMarshal.AsBytes(new ReadOnlySpan<T>(in message)).ToArray(), sequence, options);

    /// <inheritdoc cref="TryProduceAsync(T, ulong, in ProduceOptions)"/>
    /// <param name="message">The message.</param>
    /// <param name="sequence">Its sequence; at least 1.</param>
    /// <param name="cancellationToken">Cancels the call, as that of <see cref="ProduceOptions"/>.</param>
    public ValueTask<bool> TryProduceAsync(
        T message, ulong sequence, CancellationToken cancellationToken = default) =>
        TryProduceAsync(message, sequence, new ProduceOptions { CancellationToken = cancellationToken });

    /// <summary>
    /// Appends those messages of a batch whose sequences are above <see cref="LastSequence"/>. They become readable all at once
    /// or not at all.
    /// </summary>
    /// <param name="messages">The messages; an empty span appends nothing.</param>
    /// <param name="firstSequence">The sequence of the first one, at least 1; each that follows has the next one.</param>
    /// <param name="options">Options of this call alone. Each message gets its headers.</param>
    /// <returns>How many were appended; the others, at the beginning, are repetitions.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The sequence is 0, that of the last message would be above the highest
    /// one, or what is to be appended does not fit a segment; nothing was written.</exception>
    /// <inheritdoc cref="Produce(in T)" path="/exception"/>
    public int TryProduceBatch(
        ReadOnlySpan<T> messages, ulong firstSequence, in ProduceOptions options = default) =>
        _core.TryAppendBatch(new MessagesToAppend(MemoryMarshal.AsBytes(messages), sizeof(T)), firstSequence, options);

    /// <summary>Ends the producer and releases its id. Calls that wait end with an exception.</summary>
    public void Dispose() => _core.Dispose(this);

    /// <summary>A method of its own: in one that catches, the compiler keeps each value in memory.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool AppendAtOnce(in T message, ulong sequence) =>
        _core.AppendAtOnce(ref Unsafe.As<T, byte>(ref Unsafe.AsRef(in message)), sizeof(T), isKnown: true, sequence);

    private static ReadOnlySpan<byte> BytesOf(ref readonly T message) =>
        MemoryMarshal.AsBytes(MemoryMarshal.CreateReadOnlySpan(in message, 1));
}

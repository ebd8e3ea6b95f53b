using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading.Channels;
using MappedFileQueues.Engine;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Reads the messages of a queue under a name whose offset is stored. Threads, allocation and safety are as for
/// <see cref="MappedFileConsumer{T}"/>.
/// </summary>
public sealed class MappedFileConsumer : IMappedFileConsumer, IDisposable
{
    private readonly StoreEngine _queue;
    private readonly LogConsumer _core;
    private readonly LogReader _reader;
    private ReusedWait<ReadOnlyMemory<byte>> _untilCopied;

    internal MappedFileConsumer(StoreEngine queue, LogConsumer core)
    {
        _queue = queue;
        _core = core;
        _reader = core.Reader;
        _untilCopied = new ReusedWait<ReadOnlyMemory<byte>>(core, TryCopy);
    }

    /// <summary>The name; "" is the default consumer.</summary>
    public string Name => _core.Name;

    /// <summary>The offset of the next message to read: the current message until Commit or Advance.</summary>
    public long Offset => _reader.Offset;

    /// <summary>
    /// The offset after the current message, which a commit stores; <see cref="Offset"/> when there is none. One thread at a
    /// time.
    /// </summary>
    public long NextOffset => _reader.NextOffset;

    /// <summary>The stored offset. Everything before it is done.</summary>
    public long CommittedOffset => _core.CommittedOffset;

    /// <summary>The offset of the message that was read last; -1 before the first.</summary>
    public long MessageOffset => _reader.MessageOffset;

    /// <summary>
    /// A copy of the headers of the current message; null when it has none, or when there is no current message, as after
    /// ConsumeBatch. Allocates.
    /// </summary>
    public MessageHeaders? Headers => _reader.CopyHeaders(PublicNames.Consumer);

    /// <summary>
    /// The headers of the current message in place; empty where <see cref="Headers"/> is null. Valid until Commit, Advance, the
    /// next read or Dispose. Allocates nothing.
    /// </summary>
    public MessageHeadersView HeadersInPlace => new(_reader.GetHeaderBlock(PublicNames.Consumer));

    /// <summary>
    /// Waits for the next message and returns it in place. It is valid until Commit, Advance, the next read or Dispose. Until
    /// Commit or Advance, every call gives the same message.
    /// </summary>
    /// <returns>The message, in the mapping; may be empty.</returns>
    /// <exception cref="ObjectDisposedException">The consumer is disposed, also during the wait.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged here; the position stays. A <see cref="CorruptionPolicy"/> that
    /// steps over damage throws only where nothing after the damage can be read and nothing may be appended there.</exception>
    /// <exception cref="OffsetOutOfRangeException">The messages here were removed.</exception>
    /// <exception cref="QueueDiskException">The disk cannot deliver the message's page or file; the position stays.</exception>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    /// <exception cref="InvalidOperationException">An open claim of this thread is in the way, so the call would wait for
    /// itself.</exception>
    public ReadOnlySpan<byte> Consume() => Consume(CancellationToken.None);

    /// <inheritdoc cref="Consume()"/>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ReadOnlySpan<byte> Consume(CancellationToken cancellationToken)
    {
        TryGet(Timeout.InfiniteTimeSpan, cancellationToken, out ReadOnlySpan<byte> message);
        return message;
    }

    /// <summary>Waits for the next message and deserializes it. If the deserializer throws, Commit skips that message.</summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="deserializer">Creates the message from bytes in the mapping.</param>
    /// <returns>The message.</returns>
    public TMessage Consume<TMessage>(IMessageDeserializer<TMessage> deserializer)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        return deserializer.Deserialize(Consume());
    }

    /// <summary>Reads the next message if there is one, without waiting.</summary>
    /// <param name="message">The message, valid as for Consume.</param>
    /// <returns>Whether there was a message.</returns>
    public bool TryConsume(out ReadOnlySpan<byte> message) => TryGet(TimeSpan.Zero, CancellationToken.None, out message);

    /// <summary>Reads the next message, and waits for it up to a time limit.</summary>
    /// <param name="message">The message, valid as for Consume.</param>
    /// <param name="timeout">How long to wait; may be infinite.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was a message.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The time-out is negative and not infinite.</exception>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public bool TryConsume(out ReadOnlySpan<byte> message, TimeSpan timeout, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(timeout, Timeout.InfiniteTimeSpan);
        return TryGet(timeout, cancellationToken, out message);
    }

    /// <summary>
    /// Waits for one message, then enumerates all that are there, each in place, and continues after them. Commit commits the
    /// enumerated messages.
    /// </summary>
    /// <param name="countMax">The largest number of messages to enumerate.</param>
    /// <param name="cancellationToken">Ends the wait for the first message.</param>
    /// <returns>The messages, for one foreach.</returns>
    public MessageBatch ConsumeBatch(int countMax = int.MaxValue, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(countMax);
        _core.Advance();
        return new MessageBatch(this, countMax, cancellationToken);
    }

    /// <summary>Moves past the current message without committing it.</summary>
    public void Advance() => _core.Advance();

    /// <summary>
    /// Marks everything read so far as done, including the current message. The commit survives the death of this process at
    /// once.
    /// </summary>
    public void Commit() => _core.Commit();

    /// <summary>Marks everything before an offset as done. The reading position stays.</summary>
    /// <param name="nextOffset">A frame's start, at or before the end of what was read.</param>
    /// <exception cref="OffsetOutOfRangeException">The offset is not such a start.</exception>
    public void Commit(long nextOffset) => _core.Commit(nextOffset);

    /// <summary>Like <see cref="Commit()"/>. A durable commit also survives a power loss once the call has returned.</summary>
    /// <param name="durable">Whether the stored offset is flushed to the disk.</param>
    /// <exception cref="QueueDiskException">The flush failed: the commit is stored but may not survive a power loss.</exception>
    public void Commit(bool durable) => _core.Commit(durable);

    /// <summary>
    /// Like Commit(durable: true), but flushes on a pool thread. The commit itself is stored before the call returns.
    /// </summary>
    /// <param name="cancellationToken">When cancelled before the call, nothing is committed. Later cancellation has no
    /// effect.</param>
    /// <returns>A task that completes when the stored offset is on disk.</returns>
    public ValueTask CommitAsync(CancellationToken cancellationToken = default) => _core.CommitAsync(cancellationToken);

    /// <summary>Moves back to the committed offset.</summary>
    public void Rewind() => _core.Rewind();

    /// <summary>Waits for the next message without blocking a thread.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>A copy that the caller owns.</returns>
    /// <exception cref="InvalidOperationException">Another call of this consumer is waiting.</exception>
    public ValueTask<ReadOnlyMemory<byte>> ConsumeAsync(CancellationToken cancellationToken = default)
    {
        // A message that is there costs no state machine. A reader that a pending call owns is left alone.
        if (!_reader.IsBarred && !cancellationToken.IsCancellationRequested && TryCopy(out ReadOnlyMemory<byte> message))
            return new ValueTask<ReadOnlyMemory<byte>>(message);
        return ReusedWait<ReadOnlyMemory<byte>>.Start(ref _untilCopied, Timeout.InfiniteTimeSpan, cancellationToken);
    }

    /// <summary>
    /// Waits for the next message without blocking a thread, and deserializes it without a copy. If the deserializer throws,
    /// Commit skips that message.
    /// </summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="deserializer">Creates the message from bytes in the mapping.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The message.</returns>
    /// <exception cref="InvalidOperationException">Another call of this consumer is waiting.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<TMessage> ConsumeAsync<TMessage>(
        IMessageDeserializer<TMessage> deserializer, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        while (true)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (!_reader.IsBarred && TryRead(deserializer, out TMessage? message))
                return message;
            _ = await _core.WaitAsync(Timeout.InfiniteTimeSpan, cancellationToken).ConfigureAwait(false);
        }
    }

    /// <summary>
    /// Waits for one message, then for more until there are <paramref name="countMax"/> or <paramref name="maxWait"/> has passed
    /// since the first one, without blocking a thread. Commit commits them all.
    /// </summary>
    /// <param name="countMax">The largest number of messages.</param>
    /// <param name="maxWait">How long to wait for more after the first message; 0 takes what is there; may be infinite.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Copies that the caller owns; none only for a count of 0.</returns>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    /// <remarks>
    /// If the call throws, also by cancellation, it takes no message: the next call starts with the first message of this one.
    /// </remarks>
    public async ValueTask<IReadOnlyList<ReadOnlyMemory<byte>>> ConsumeBatchAsync(
        int countMax, TimeSpan maxWait = default, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(countMax);
        ArgumentOutOfRangeException.ThrowIfLessThan(maxWait, Timeout.InfiniteTimeSpan);
        List<ReadOnlyMemory<byte>> messages = [];
        if (countMax == 0)
            return messages;
        _core.Advance();
        long first = _reader.Offset;
        var deadline = new Deadline(Timeout.InfiniteTimeSpan);
        try
        {
            while (true)
            {
                cancellationToken.ThrowIfCancellationRequested();
                while (messages.Count < countMax && TryCopy(out ReadOnlyMemory<byte> message))
                {
                    if (messages.Count == 0)
                        deadline = new Deadline(maxWait);
                    messages.Add(message);
                    _core.Advance();
                }

                if (messages.Count == countMax || deadline.IsOver
                    || !await _core.WaitAsync(deadline.AsTimeout(), cancellationToken).ConfigureAwait(false))
                    return messages;
            }
        }
        catch
        {
            _core.GoBackTo(first);
            throw;
        }
    }

    /// <summary>
    /// This consumer as a channel to read copies of its messages from. Asking for a message commits the one before, as
    /// <see cref="ReadAllAsync"/> does. One thread at a time. The channel ends when the consumer is disposed.
    /// </summary>
    /// <returns>The channel.</returns>
    public ChannelReader<ReadOnlyMemory<byte>> AsChannelReader() =>
        new ConsumerChannelReader<ReadOnlyMemory<byte>>(_core, TryCopy);

    /// <summary>Like <see cref="AsChannelReader()"/>, with deserialized messages.</summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="deserializer">Creates the messages from bytes in the mapping.</param>
    /// <returns>The channel.</returns>
    public ChannelReader<TMessage> AsChannelReader<TMessage>(IMessageDeserializer<TMessage> deserializer)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        return new ConsumerChannelReader<TMessage>(_core, (out message) => TryRead(deserializer, out message!));
    }

    /// <summary>Waits until TryConsume would find a message. A loop of the two neither copies nor allocates.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Always true; on a disposed consumer the call throws.</returns>
    public ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        _core.WaitForMessageAsync(cancellationToken);

    /// <summary>
    /// Enumerates all messages from here on, without end, as copies. Asking for the next message commits the one before.
    /// </summary>
    /// <param name="cancellationToken">Ends the enumeration with <see cref="OperationCanceledException"/>.</param>
    /// <returns>The messages.</returns>
    public async IAsyncEnumerable<ReadOnlyMemory<byte>> ReadAllAsync(
        [EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        while (true)
        {
            yield return await ConsumeAsync(cancellationToken).ConfigureAwait(false);
            Commit();
        }
    }

    /// <summary>
    /// Moves the consumer to an offset and stores it. A message in hand counts as not read; the interface of 1.x refuses to move
    /// until it is committed. A power loss may undo the move, until the next durable commit.
    /// </summary>
    /// <param name="offset">A frame's start or the tail.</param>
    /// <exception cref="OffsetOutOfRangeException">The offset is neither, or its messages were removed.</exception>
    public void AdjustOffset(long offset) => _core.Move(offset);

    /// <inheritdoc/>
    void IMappedFileConsumer.AdjustOffset(long offset)
    {
        _core.ThrowIfInHand();
        AdjustOffset(offset);
    }

    /// <summary>
    /// Moves the consumer and stores its place, as <see cref="AdjustOffset"/> does. A message in hand counts as not read.
    /// </summary>
    /// <param name="start">Where it continues, found as for a new consumer.</param>
    /// <exception cref="OffsetOutOfRangeException">The exact offset is not a frame's start, or the message of that number is not
    /// there.</exception>
    public void Seek(QueueStart start) => _queue.Seek(_core, start);

    /// <summary>Moves to the end of the published messages and stores that offset.</summary>
    public void SeekToEnd() => Seek(QueueStart.Latest);

    /// <summary>Moves to the oldest message in the store and stores its offset.</summary>
    public void SeekToStart() => Seek(QueueStart.Earliest);

    /// <summary>Ends the consumer and releases its name.</summary>
    public void Dispose()
    {
        _core.Dispose();
        _queue.Remove(this);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal unsafe bool TryGet(TimeSpan timeout, CancellationToken cancellationToken, out ReadOnlySpan<byte> message)
    {
        if (!_reader.TryGetInCall(out byte* payload, out int length))
            return TryWait(timeout, cancellationToken, out message);
        if (PlantedFaults.Has(PlantedFault.CursorBeforeRead))
            _core.Commit(_reader.NextOffset);
        message = MemoryMarshal.CreateReadOnlySpan(ref *payload, length);
        return true;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private unsafe bool TryWait(TimeSpan timeout, CancellationToken cancellationToken, out ReadOnlySpan<byte> message)
    {
        bool found = _reader.TryEndByGet(out byte* payload, out int length)
            || _core.TryWait(timeout, cancellationToken, out payload, out length);
        if (found && PlantedFaults.Has(PlantedFault.CursorBeforeRead))
            _core.Commit(_reader.NextOffset);
        message = found ? new ReadOnlySpan<byte>(payload, length) : default;
        return found;
    }

    private bool TryCopy(out ReadOnlyMemory<byte> copy)
    {
        bool found = TryConsume(out ReadOnlySpan<byte> message);
        copy = message.ToArray();
        // The message remains current, but a Dispose on another thread need not keep anything mapped for it.
        _reader.ForgetSpan();
        return found;
    }

    private bool TryRead<TMessage>(IMessageDeserializer<TMessage> deserializer, [MaybeNullWhen(false)] out TMessage message)
    {
        message = default;
        if (!TryConsume(out ReadOnlySpan<byte> bytes))
            return false;
        message = deserializer.Deserialize(bytes);
        // The message remains current, but a Dispose on another thread need not keep anything mapped for it.
        _reader.ForgetSpan();
        return true;
    }
}

/// <summary>The messages that are there, one after the other, each in place in the mapping.</summary>
public ref struct MessageBatch
{
    private readonly MappedFileConsumer _consumer;
    private readonly CancellationToken _cancellationToken;
    private int _left;
    private bool _waits;
    private bool _hasCurrent;

    internal MessageBatch(MappedFileConsumer consumer, int countMax, CancellationToken cancellationToken)
    {
        _consumer = consumer;
        _cancellationToken = cancellationToken;
        _left = countMax;
        _waits = true;
    }

    /// <summary>The current message; valid until the next MoveNext or the next call on the consumer.</summary>
    public ReadOnlySpan<byte> Current { get; private set; }

    /// <summary>The headers of the current message; valid as it is.</summary>
    public readonly MessageHeadersView HeadersInPlace => _hasCurrent ? _consumer.HeadersInPlace : default;

    /// <summary>Supports foreach.</summary>
    /// <returns>This batch.</returns>
    public readonly MessageBatch GetEnumerator() => this;

    /// <summary>Moves to the next message. Waits for the first message only.</summary>
    /// <returns>Whether there is a message.</returns>
    public bool MoveNext()
    {
        if (_hasCurrent)
            _consumer.Advance();
        _hasCurrent = false;
        TimeSpan timeout = _waits ? Timeout.InfiniteTimeSpan : TimeSpan.Zero;
        if (_left == 0 || !_consumer.TryGet(timeout, _cancellationToken, out ReadOnlySpan<byte> message))
            return false;
        _left--;
        _waits = false;
        _hasCurrent = true;
        Current = message;
        return true;
    }
}

using System.Runtime.CompilerServices;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Reads the messages of a queue under a name whose offset is stored. Threads, allocation and safety as for
/// <see cref="MappedFileConsumer{T}"/>.
/// </summary>
public sealed class MappedFileConsumer : IMappedFileConsumer, IDisposable
{
    private readonly QueueCore _queue;
    private readonly LogConsumer _core;
    private readonly LogReader _reader;

    internal MappedFileConsumer(QueueCore queue, LogConsumer core)
    {
        _queue = queue;
        _core = core;
        _reader = core.Reader;
    }

    /// <summary>The name; "" is the default consumer.</summary>
    public string Name => _core.Name;

    /// <summary>The next message to read: the one in hand, until Commit or Advance.</summary>
    public long Offset => _reader.Offset;

    /// <summary>The stored offset: what lies before it is done.</summary>
    public long CommittedOffset => _core.CommittedOffset;

    /// <summary>Where the message that was read last began; -1 before the first.</summary>
    public long MessageOffset => _reader.MessageOffset;

    /// <summary>
    /// Waits for the next message and gives it where it lies; valid until Commit, Advance, the next read or Dispose. Again
    /// without Commit or Advance gives the same one.
    /// </summary>
    /// <returns>The message, in the mapping; may be empty.</returns>
    /// <exception cref="ObjectDisposedException">Disposed, also while waiting.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged here; the place stays. With another
    /// <see cref="CorruptionPolicy"/> only where nothing behind the damage can be read, and nobody may append there.</exception>
    /// <exception cref="OffsetOutOfRangeException">The messages here were removed.</exception>
    /// <exception cref="QueueDiskException">The disk cannot give the message: its page, or its file; the place stays.</exception>
    /// <exception cref="QueuePoisonedException">A flush of some process has failed.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim in the way and would wait for
    /// itself.</exception>
    public ReadOnlySpan<byte> Consume() => Consume(CancellationToken.None);

    /// <inheritdoc cref="Consume()"/>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public ReadOnlySpan<byte> Consume(CancellationToken cancellationToken)
    {
        TryGet(Timeout.InfiniteTimeSpan, cancellationToken, out ReadOnlySpan<byte> message);
        return message;
    }

    /// <summary>
    /// Waits for the next message and deserializes it. When the deserializer throws, Commit skips that message.
    /// </summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="deserializer">Reads it from bytes that lie in the mapping.</param>
    /// <returns>The message.</returns>
    public TMessage Consume<TMessage>(IMessageDeserializer<TMessage> deserializer)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        return deserializer.Deserialize(Consume());
    }

    /// <summary>Reads the next message if there is one; does not wait.</summary>
    /// <param name="message">The message; valid as Consume says.</param>
    /// <returns>Whether there was one.</returns>
    public bool TryConsume(out ReadOnlySpan<byte> message) => TryGet(TimeSpan.Zero, CancellationToken.None, out message);

    /// <summary>Reads the next message, waiting for it for a time.</summary>
    /// <param name="message">The message; valid as Consume says.</param>
    /// <param name="timeout">How long; infinite is allowed.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was one.</returns>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public bool TryConsume(out ReadOnlySpan<byte> message, TimeSpan timeout, CancellationToken cancellationToken = default) =>
        TryGet(timeout, cancellationToken, out message);

    /// <summary>
    /// Waits for one message and enumerates those that are there, each where it lies, reading on behind it; Commit commits
    /// those that were enumerated.
    /// </summary>
    /// <param name="countMax">The most messages that are enumerated.</param>
    /// <param name="cancellationToken">Ends the wait for the first one.</param>
    /// <returns>To be enumerated once, by foreach.</returns>
    public MessageBatch ConsumeBatch(int countMax = int.MaxValue, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(countMax);
        _core.Advance();
        return new MessageBatch(this, countMax, cancellationToken);
    }

    /// <summary>Reads on behind the message in hand without committing.</summary>
    public void Advance() => _core.Advance();

    /// <summary>Everything read so far, and the message in hand, is done. Survives the death of this process at once.</summary>
    public void Commit() => _core.Commit();

    /// <summary>Everything before an offset is done; the reading place stays.</summary>
    /// <param name="nextOffset">A frame's start at or before what was read.</param>
    /// <exception cref="OffsetOutOfRangeException">It is not.</exception>
    public void Commit(long nextOffset) => _core.Commit(nextOffset);

    /// <summary>As <see cref="Commit()"/>; durable, it also survives a power cut when it returns.</summary>
    /// <param name="durable">Whether the stored offset is flushed to the disk.</param>
    /// <exception cref="QueueDiskException">The flush failed: the commit is stored, and may not survive a power cut.</exception>
    public void Commit(bool durable)
    {
        _core.Commit();
        if (durable)
            _core.FlushCursor();
    }

    /// <summary>As Commit(durable: true), with the flush on a pool thread. The commit itself is stored at once.</summary>
    /// <param name="cancellationToken">Cancelled before the call, nothing is committed; afterwards it counts no more.</param>
    /// <returns>Completes when the stored offset is on disk.</returns>
    public ValueTask CommitAsync(CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled(cancellationToken);
        _core.Commit();
        return new ValueTask(Task.Run(_core.FlushCursor, CancellationToken.None));
    }

    /// <summary>Back to the committed offset.</summary>
    public void Rewind() => _core.Rewind();

    /// <summary>Waits for the next message without blocking a thread.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>A copy that the caller owns.</returns>
    /// <exception cref="InvalidOperationException">Another call of this consumer is waiting.</exception>
    public ValueTask<ReadOnlyMemory<byte>> ConsumeAsync(CancellationToken cancellationToken = default)
    {
        // What is there costs no state machine. A reader that a pending call owns is not looked at.
        if (!_reader.IsBarred && !cancellationToken.IsCancellationRequested && TryCopy(out ReadOnlyMemory<byte> message))
            return new ValueTask<ReadOnlyMemory<byte>>(message);
        return WaitAndConsumeAsync(cancellationToken);
    }

    /// <summary>Waits until TryConsume would find a message: the loop that copies and allocates nothing.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Always true; a disposed consumer throws.</returns>
    public ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        !_reader.IsBarred && _core.IsMessageThere() ? new ValueTask<bool>(true) : WaitUntilThereAsync(cancellationToken);

    /// <summary>All messages from here on, for ever, as copies; one is committed when the next is asked for.</summary>
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
    /// Moves the consumer and stores the place. A message in hand counts as not read; the interface of 1.x refuses to move until
    /// it is committed.
    /// </summary>
    /// <param name="offset">A frame's start or the tail.</param>
    /// <exception cref="OffsetOutOfRangeException">It is neither, or was removed.</exception>
    public void AdjustOffset(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        _core.Move(offset);
    }

    /// <inheritdoc/>
    void IMappedFileConsumer.AdjustOffset(long offset)
    {
        _core.ThrowIfInHand();
        AdjustOffset(offset);
    }

    /// <summary>Moves behind the last published message and stores the place.</summary>
    public void SeekToEnd() => Seek(QueueStart.Latest);

    /// <summary>Moves to the oldest message that the store holds and stores the place.</summary>
    public void SeekToStart() => Seek(QueueStart.Earliest);

    /// <summary>Ends the consumer and lets its name go.</summary>
    public void Dispose()
    {
        _core.Dispose();
        _queue.Remove(this);
    }

    internal unsafe bool TryGet(TimeSpan timeout, CancellationToken cancellationToken, out ReadOnlySpan<byte> message)
    {
        if (!_reader.TryGetInCall(out byte* payload, out int length)
            && !_core.TryWait(timeout, cancellationToken, out payload, out length))
        {
            message = default;
            return false;
        }

#if MFQ_PLANTED
        if (Memory.PlantedFaults.Has(Memory.PlantedFault.CursorBeforeRead))
            _core.Commit(_reader.OffsetBehind);
#endif
        message = new ReadOnlySpan<byte>(payload, length);
        return true;
    }

    private bool TryCopy(out ReadOnlyMemory<byte> copy)
    {
        bool found = TryConsume(out ReadOnlySpan<byte> message);
        copy = message.ToArray();
        // The message stays in hand; but a Dispose on another thread has nothing to keep mapped for it.
        _reader.ForgetSpan();
        return found;
    }

    private async ValueTask<ReadOnlyMemory<byte>> WaitAndConsumeAsync(CancellationToken cancellationToken)
    {
        while (true)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (TryCopy(out ReadOnlyMemory<byte> message))
                return message;
            await _core.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
    }

    private async ValueTask<bool> WaitUntilThereAsync(CancellationToken cancellationToken)
    {
        while (!_core.IsMessageThere())
            await _core.WaitAsync(cancellationToken).ConfigureAwait(false);
        return true;
    }

    private void Seek(QueueStart start) => _queue.Seek(_core, start);
}

/// <summary>Messages that were there, one after the other, each where it lies in the mapping.</summary>
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

    /// <summary>The message; valid until the next MoveNext or call on the consumer.</summary>
    public ReadOnlySpan<byte> Current { get; private set; }

    /// <summary>For foreach.</summary>
    /// <returns>This.</returns>
    public readonly MessageBatch GetEnumerator() => this;

    /// <summary>Reads on; waits for the first message only.</summary>
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

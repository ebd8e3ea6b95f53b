using System.Runtime.CompilerServices;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Reads the structs of a queue under a name whose offset is stored. One thread at a time; Dispose may come from any thread
/// and ends waiting calls with <see cref="ObjectDisposedException"/>. Reading allocates nothing. A consumer that dies loses no
/// message: the next one of its name begins at the committed offset.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed class MappedFileConsumer<T> : IMappedFileConsumer<T>, IDisposable
    where T : unmanaged
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

    /// <summary>Waits for the next message; again without Commit or Advance gives the same one.</summary>
    /// <param name="message">The message.</param>
    /// <exception cref="ObjectDisposedException">Disposed, also while waiting.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged here; the place stays. With another
    /// <see cref="CorruptionPolicy"/> only where nothing behind the damage can be read, and nobody may append there.</exception>
    /// <exception cref="OffsetOutOfRangeException">The messages here were removed.</exception>
    /// <exception cref="QueueDiskException">The disk cannot give the message: its page, or its file; the place stays.</exception>
    /// <exception cref="QueuePoisonedException">A flush of some process has failed.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    /// <exception cref="InvalidOperationException">This thread has an open claim in the way and would wait for
    /// itself.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Consume(out T message)
    {
        if (!_reader.TryCopyInCall(out message))
            Wait(Timeout.InfiniteTimeSpan, CancellationToken.None, out message);
    }

    /// <inheritdoc cref="Consume(out T)"/>
    /// <param name="message">The message.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public void Consume(out T message, CancellationToken cancellationToken)
    {
        if (!_reader.TryCopyInCall(out message))
            Wait(Timeout.InfiniteTimeSpan, cancellationToken, out message);
    }

    /// <summary>Reads the next message if there is one; does not wait.</summary>
    /// <param name="message">The message.</param>
    /// <returns>Whether there was one.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryConsume(out T message) =>
        _reader.TryCopyInCall(out message) || Wait(TimeSpan.Zero, CancellationToken.None, out message);

    /// <summary>Reads the next message, waiting for it for a time.</summary>
    /// <param name="message">The message.</param>
    /// <param name="timeout">How long; infinite is allowed.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was one.</returns>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public bool TryConsume(out T message, TimeSpan timeout, CancellationToken cancellationToken = default) =>
        _reader.TryCopyInCall(out message) || Wait(timeout, cancellationToken, out message);

    /// <summary>
    /// Waits for the next message and gives it where it lies; valid until Commit, Advance, the next read or Dispose.
    /// </summary>
    /// <returns>The message, in the mapping.</returns>
    public unsafe ref readonly T Peek()
    {
        _core.TryWait(Timeout.InfiniteTimeSpan, CancellationToken.None, out byte* payload, out _);
        return ref Unsafe.AsRef<T>(payload);
    }

    /// <summary>Waits for one message, takes those that are there, and reads on behind them; Commit commits them all.</summary>
    /// <param name="destination">Where they go; its length is the most that are taken.</param>
    /// <param name="cancellationToken">Ends the wait for the first one.</param>
    /// <returns>How many; 0 only for an empty destination.</returns>
    /// <remarks>When it throws, none is taken: the next call begins with the first message of this one.</remarks>
    public int ConsumeBatch(Span<T> destination, CancellationToken cancellationToken = default)
    {
        return destination.IsEmpty ? 0 : _core.TakeBatch(destination, cancellationToken);
    }

    /// <summary>Reads on behind the message in hand without committing.</summary>
    public void Advance() => _core.Advance();

    /// <summary>Everything read so far, and the message in hand, is done. Survives the death of this process at once.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
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
    /// <returns>The message.</returns>
    /// <exception cref="InvalidOperationException">Another call of this consumer is waiting.</exception>
    public ValueTask<T> ConsumeAsync(CancellationToken cancellationToken = default)
    {
        // What is there costs no state machine. A reader that a pending call owns is not looked at.
        if (!_reader.IsBarred && !cancellationToken.IsCancellationRequested && TryConsume(out T message))
            return new ValueTask<T>(message);
        return WaitAndConsumeAsync(cancellationToken);
    }

    /// <summary>Waits until TryConsume or Peek would find a message: the loop that copies and allocates nothing.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Always true; a disposed consumer throws.</returns>
    public ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        !_reader.IsBarred && _core.IsMessageThere() ? new ValueTask<bool>(true) : WaitUntilThereAsync(cancellationToken);

    /// <summary>All messages from here on, for ever; one is committed when the next is asked for.</summary>
    /// <param name="cancellationToken">Ends the enumeration with <see cref="OperationCanceledException"/>.</param>
    /// <returns>The messages.</returns>
    public async IAsyncEnumerable<T> ReadAllAsync([EnumeratorCancellation] CancellationToken cancellationToken = default)
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
    void IMappedFileConsumer<T>.AdjustOffset(long offset)
    {
        _core.ThrowIfInHand();
        AdjustOffset(offset);
    }

    /// <summary>Moves behind the last published message and stores the place.</summary>
    public void SeekToEnd() => Seek(QueueStart.Latest);

    /// <summary>Moves to the oldest message that the store holds and stores the place.</summary>
    public void SeekToStart() => Seek(QueueStart.Earliest);

    /// <summary>Ends the consumer and lets its name go. See the type for spans and references that are out.</summary>
    public void Dispose()
    {
        _core.Dispose();
        _queue.Remove(this);
    }

    private async ValueTask<T> WaitAndConsumeAsync(CancellationToken cancellationToken)
    {
        while (true)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (TryConsume(out T message))
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

    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool Wait(TimeSpan timeout, CancellationToken cancellationToken, out T message) =>
        _core.TryWait(timeout, cancellationToken, out message);
}

using System.Runtime.CompilerServices;
using System.Threading.Channels;
using MappedFileQueues.Engine;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Reads the structs of a queue under a name whose offset is stored. One thread at a time may use it; Dispose may come from any
/// thread and ends waiting calls with <see cref="ObjectDisposedException"/>. Reading allocates nothing. A consumer that dies
/// loses no message: the next one with its name starts at the committed offset.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed class MappedFileConsumer<T> : IMappedFileConsumer<T>, IDisposable
    where T : unmanaged
{
    private readonly StoreEngine _queue;
    private readonly LogConsumer _core;
    private readonly LogReader _reader;
    private ReusedWait<T> _untilTaken;

    internal MappedFileConsumer(StoreEngine queue, LogConsumer core)
    {
        _queue = queue;
        _core = core;
        _reader = core.Reader;
        _untilTaken = new ReusedWait<T>(core, TryConsume);
    }

    /// <summary>The name; "" is the default consumer.</summary>
    public string Name => _core.Name;

    /// <summary>The offset of the next message to read: the current message until Commit or Advance.</summary>
    public long Offset => _reader.Offset;

    /// <inheritdoc cref="MappedFileConsumer.NextOffset"/>
    public long NextOffset => _reader.NextOffset;

    /// <summary>The stored offset. Everything before it is done.</summary>
    public long CommittedOffset => _core.CommittedOffset;

    /// <summary>The offset of the message that was read last; -1 before the first.</summary>
    public long MessageOffset => _reader.MessageOffset;

    /// <inheritdoc cref="MappedFileConsumer.Headers"/>
    public MessageHeaders? Headers => _reader.CopyHeaders(PublicNames.Consumer);

    /// <inheritdoc cref="MappedFileConsumer.HeadersInPlace"/>
    public MessageHeadersView HeadersInPlace => new(_reader.GetHeaderBlock(PublicNames.Consumer));

    /// <summary>Waits for the next message. Until Commit or Advance, every call gives the same message.</summary>
    /// <param name="message">The message.</param>
    /// <exception cref="ObjectDisposedException">The consumer is disposed, also during the wait.</exception>
    /// <exception cref="QueueCorruptException">The log is damaged here; the position stays. A <see cref="CorruptionPolicy"/> that
    /// steps over damage throws only where nothing after the damage can be read and nothing may be appended there.</exception>
    /// <exception cref="OffsetOutOfRangeException">The messages here were removed.</exception>
    /// <exception cref="QueueDiskException">The disk cannot deliver the message's page or file; the position stays.</exception>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    /// <exception cref="InvalidOperationException">An open claim of this thread is in the way, so the call would wait for
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

    /// <summary>Reads the next message if there is one, without waiting.</summary>
    /// <param name="message">The message.</param>
    /// <returns>Whether there was a message.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryConsume(out T message) =>
        _reader.TryCopyInCall(out message) || Wait(TimeSpan.Zero, CancellationToken.None, out message);

    /// <summary>Reads the next message, and waits for it up to a time limit.</summary>
    /// <param name="message">The message.</param>
    /// <param name="timeout">How long to wait; may be infinite.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was a message.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The time-out is negative and not infinite.</exception>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public bool TryConsume(out T message, TimeSpan timeout, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(timeout, Timeout.InfiniteTimeSpan);
        return _reader.TryCopyInCall(out message) || Wait(timeout, cancellationToken, out message);
    }

    /// <summary>
    /// Waits for the next message and returns it in place. It is valid until Commit, Advance, the next read or Dispose.
    /// </summary>
    /// <returns>The message, in the mapping.</returns>
    public unsafe ref readonly T Peek()
    {
        _core.TryWait(Timeout.InfiniteTimeSpan, CancellationToken.None, out byte* payload, out _);
        return ref Unsafe.AsRef<T>(payload);
    }

    /// <summary>Waits for one message, takes all that are there, and continues after them. Commit commits them all.</summary>
    /// <param name="destination">Receives the messages; its length is the largest number taken.</param>
    /// <param name="cancellationToken">Ends the wait for the first message.</param>
    /// <returns>The number of messages; 0 only for an empty destination.</returns>
    /// <remarks>If the call throws, it takes no message: the next call starts with the first message of this one.</remarks>
    public int ConsumeBatch(Span<T> destination, CancellationToken cancellationToken = default)
    {
        if (!destination.IsEmpty)
            return _core.TakeBatch(destination, waits: true, cancellationToken);
        PublicNames.ThrowIfDisposed(_reader.IsClosed, PublicNames.Consumer);
        return 0;
    }

    /// <summary>Moves past the current message without committing it.</summary>
    public void Advance() => _core.Advance();

    /// <inheritdoc cref="MappedFileConsumer.Commit()"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Commit() => _core.Commit();

    /// <inheritdoc cref="MappedFileConsumer.Commit(long)"/>
    public void Commit(long nextOffset) => _core.Commit(nextOffset);

    /// <inheritdoc cref="MappedFileConsumer.Commit(bool)"/>
    public void Commit(bool durable) => _core.Commit(durable);

    /// <inheritdoc cref="MappedFileConsumer.CommitAsync(CancellationToken)"/>
    public ValueTask CommitAsync(CancellationToken cancellationToken = default) => _core.CommitAsync(cancellationToken);

    /// <summary>Moves back to the committed offset.</summary>
    public void Rewind() => _core.Rewind();

    /// <summary>Waits for the next message without blocking a thread.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The message.</returns>
    /// <exception cref="InvalidOperationException">Another call of this consumer is waiting.</exception>
    public ValueTask<T> ConsumeAsync(CancellationToken cancellationToken = default)
    {
        // A message that is there costs no state machine. A reader that a pending call owns is left alone.
        if (!_reader.IsBarred && !cancellationToken.IsCancellationRequested && TryConsume(out T message))
            return new ValueTask<T>(message);
        return ReusedWait<T>.Start(ref _untilTaken, Timeout.InfiniteTimeSpan, cancellationToken);
    }

    /// <summary>
    /// Waits for one message, then for more until the destination is full or <paramref name="maxWait"/> has passed since the
    /// first one, without blocking a thread. Commit commits them all.
    /// </summary>
    /// <param name="destination">Receives the messages; its length is the largest number taken.</param>
    /// <param name="maxWait">How long to wait for more after the first message; 0 takes what is there; may be infinite.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The number of messages; 0 only for an empty destination.</returns>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    /// <remarks>
    /// If the call throws, also by cancellation, it takes no message: the next call starts with the first message of this one.
    /// Allocates nothing once the consumer has waited before.
    /// </remarks>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<int> ConsumeBatchAsync(
        Memory<T> destination, TimeSpan maxWait = default, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(maxWait, Timeout.InfiniteTimeSpan);
        if (destination.IsEmpty)
        {
            PublicNames.ThrowIfDisposed(_reader.IsClosed, PublicNames.Consumer);
            return 0;
        }

        _core.Advance();
        long first = _reader.Offset;
        var deadline = new Deadline(Timeout.InfiniteTimeSpan);
        int count = 0;
        try
        {
            while (true)
            {
                cancellationToken.ThrowIfCancellationRequested();
                int taken = _core.TakeBatch(destination.Span[count..], waits: false);
                if (count == 0 && taken > 0)
                    deadline = new Deadline(maxWait);
                count += taken;
                if (count == destination.Length || deadline.IsOver
                    || !await _core.WaitAsync(deadline.AsTimeout(), cancellationToken).ConfigureAwait(false))
                    return count;
            }
        }
        catch
        {
            _core.GoBackTo(first);
            throw;
        }
    }

    /// <summary>
    /// This consumer as a channel to read from. Asking for a message commits the one before, as <see cref="ReadAllAsync"/> does.
    /// One thread at a time. The channel ends when the consumer is disposed.
    /// </summary>
    /// <returns>The channel.</returns>
    public ChannelReader<T> AsChannelReader() => new ConsumerChannelReader<T>(_core, TryConsume);

    /// <summary>Waits until TryConsume or Peek would find a message. A loop of the two neither copies nor allocates.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Always true; on a disposed consumer the call throws.</returns>
    public ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        _core.WaitForMessageAsync(cancellationToken);

    /// <summary>Enumerates all messages from here on, without end. Asking for the next message commits the one before.</summary>
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

    /// <inheritdoc cref="MappedFileConsumer.AdjustOffset(long)"/>
    public void AdjustOffset(long offset) => _core.Move(offset);

    /// <inheritdoc/>
    void IMappedFileConsumer<T>.AdjustOffset(long offset)
    {
        _core.ThrowIfInHand();
        AdjustOffset(offset);
    }

    /// <inheritdoc cref="MappedFileConsumer.Seek(QueueStart)"/>
    public void Seek(QueueStart start) => _queue.Seek(_core, start);

    /// <summary>Moves to the end of the published messages and stores that offset.</summary>
    public void SeekToEnd() => Seek(QueueStart.Latest);

    /// <summary>Moves to the oldest message in the store and stores its offset.</summary>
    public void SeekToStart() => Seek(QueueStart.Earliest);

    /// <summary>
    /// Ends the consumer and releases its name. A reference from Peek that another thread still uses stays readable until that
    /// thread's next call.
    /// </summary>
    public void Dispose()
    {
        _core.Dispose();
        _queue.Remove(this);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool Wait(TimeSpan timeout, CancellationToken cancellationToken, out T message) =>
        _reader.TryEndByCopy(out message) || _core.TryWait(timeout, cancellationToken, out message);
}

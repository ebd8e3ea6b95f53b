using MappedFileQueues.Engine;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues;

/// <summary>
/// A member of a group of competing consumers of a queue of structs: each message goes to one member, whichever process it is in.
/// Messages are handed out in order, and acknowledged in any order. What a member that dies has in hand goes to the others within
/// about 100 ms; what a stopped one has stays with it. One thread at a time may use it; Dispose may come from any thread. Taking
/// and acknowledging allocates nothing.
/// </summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed class MappedFileGroupMember<T> : IDisposable
    where T : unmanaged
{
    private readonly StoreEngine _queue;
    private readonly GroupMember _core;
    private readonly IDisposable _letters;
    private ReusedWait<T> _untilTaken;

    internal MappedFileGroupMember(StoreEngine queue, GroupMember core, IDisposable letters)
    {
        (_queue, _core, _letters) = (queue, core, letters);
        _untilTaken = new ReusedWait<T>(core, TryConsume);
    }

    /// <summary>The group's name, in lower case.</summary>
    public string Group => _core.Group;

    /// <summary>The slot by which operators name this member (<c>mfq consumers members</c>).</summary>
    public int Slot => _core.Slot;

    /// <summary>The offset of the message that a call returned last; -1 before the first.</summary>
    public long MessageOffset => _core.MessageOffset;

    /// <inheritdoc cref="MappedFileGroupMember.DeliveryCount"/>
    public int DeliveryCount => _core.DeliveryCount;

    /// <summary>How many messages this member has in hand.</summary>
    public int UnacknowledgedCount => _core.UnacknowledgedCount;

    /// <inheritdoc cref="MappedFileGroupMember.Headers"/>
    public MessageHeaders? Headers => _core.Reader.CopyHeaders(PublicNames.GroupMember);

    /// <summary>The same headers in place; empty when there are none. Valid as the message is. Allocates nothing.</summary>
    public MessageHeadersView HeadersInPlace => new(_core.Reader.GetHeaderBlock(PublicNames.GroupMember));

    /// <summary>
    /// Waits for a message and takes it. Each call takes the next one, whether or not those before are acknowledged.
    /// </summary>
    /// <param name="message">The message.</param>
    /// <exception cref="ObjectDisposedException">The member is disposed, also during the wait.</exception>
    /// <exception cref="QueueCorruptException">The message is damaged, and the policy throws. It stays in hand:
    /// <see cref="Acknowledge()"/> steps over it, Reject gives it back. Or the group's file is damaged.</exception>
    /// <exception cref="OffsetOutOfRangeException">Messages that nobody has got yet were removed.</exception>
    /// <exception cref="QueueDiskException">The disk cannot deliver the message; it stays in hand.</exception>
    /// <exception cref="QueuePoisonedException">A flush failed, in this process or another.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    /// <exception cref="InvalidOperationException">As many messages are in hand as <see cref="GroupOptions.UnacknowledgedMax"/>
    /// allows, or another thread is in a call.</exception>
    /// <exception cref="MappedFileQueueException">A message that was handed out too often cannot be moved to the dead letters; it
    /// comes again in 5 s, and the next call gets others.</exception>
    public void Consume(out T message) => Consume(out message, CancellationToken.None);

    /// <inheritdoc cref="Consume(out T)"/>
    /// <param name="message">The message.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public void Consume(out T message, CancellationToken cancellationToken) =>
        _ = _core.TryTake(Timeout.InfiniteTimeSpan, cancellationToken, out message);

    /// <summary>Takes a message if there is one, without waiting.</summary>
    /// <param name="message">The message.</param>
    /// <returns>Whether there was a message.</returns>
    public bool TryConsume(out T message) => _core.TryTake(TimeSpan.Zero, CancellationToken.None, out message);

    /// <summary>Takes a message, and waits for it up to a time limit.</summary>
    /// <param name="message">The message.</param>
    /// <param name="timeout">How long to wait; may be infinite.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was a message.</returns>
    /// <exception cref="ArgumentOutOfRangeException">The time-out is negative and not infinite.</exception>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    public bool TryConsume(out T message, TimeSpan timeout, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(timeout, Timeout.InfiniteTimeSpan);
        return _core.TryTake(timeout, cancellationToken, out message);
    }

    /// <summary>
    /// Waits for one message and takes all that are there. A message that came back comes alone, so that one that ends its
    /// process does not count against its neighbours.
    /// </summary>
    /// <param name="destination">Receives the messages; its length is the largest number taken.</param>
    /// <param name="offsets">Receives their offsets; at least as long.</param>
    /// <param name="cancellationToken">Ends the wait for the first message.</param>
    /// <returns>The number of messages; 0 only for an empty destination.</returns>
    /// <remarks>If the call throws, it takes no message, except for one that is damaged: that one is
    /// <see cref="MessageOffset"/>.</remarks>
    public int ConsumeBatch(Span<T> destination, Span<long> offsets, CancellationToken cancellationToken = default)
    {
        if (offsets.Length < destination.Length)
            throw new ArgumentException($"There is no room for the offsets: offsets={offsets.Length}, "
                + $"destination={destination.Length}. Make them as long.", nameof(offsets));
        if (!destination.IsEmpty)
            return _core.TakeBatch(destination, offsets, Timeout.InfiniteTimeSpan, cancellationToken);
        PublicNames.ThrowIfDisposed(_core.Reader.IsClosed, PublicNames.GroupMember);
        return 0;
    }

    /// <summary>The same for those that are there: it does not wait for the first one.</summary>
    internal int ConsumeBatchNow(Span<T> destination, Span<long> offsets) =>
        _core.TakeBatch(destination, offsets, TimeSpan.Zero, CancellationToken.None);

    /// <summary>Waits for a message without blocking a thread, and takes it.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>The message.</returns>
    /// <exception cref="InvalidOperationException">Another call of this member is waiting, or as many messages are in hand as
    /// <see cref="GroupOptions.UnacknowledgedMax"/> allows.</exception>
    public ValueTask<T> ConsumeAsync(CancellationToken cancellationToken = default) =>
        !_core.Reader.IsBarred && !cancellationToken.IsCancellationRequested && TryConsume(out T message)
            ? new ValueTask<T>(message)
            : ReusedWait<T>.Start(ref _untilTaken, Timeout.InfiniteTimeSpan, cancellationToken);

    /// <inheritdoc cref="MappedFileGroupMember.WaitToConsumeAsync(CancellationToken)"/>
    public ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        _core.WaitForMessageAsync(cancellationToken);

    /// <inheritdoc cref="MappedFileGroupMember.Acknowledge()"/>
    public void Acknowledge() => _core.Acknowledge();

    /// <inheritdoc cref="MappedFileGroupMember.Acknowledge(long)"/>
    public void Acknowledge(long offset) => _core.Acknowledge([offset]);

    /// <inheritdoc cref="MappedFileGroupMember.Acknowledge(ReadOnlySpan{long})"/>
    public void Acknowledge(ReadOnlySpan<long> offsets) => _core.Acknowledge(offsets);

    /// <inheritdoc cref="MappedFileGroupMember.Reject(long, TimeSpan, bool, string)"/>
    public void Reject(long offset, TimeSpan delay = default, bool deadLetter = false, string? reason = null) =>
        _core.Reject(offset, delay, deadLetter, reason);

    /// <inheritdoc cref="GroupMember.IsInHand"/>
    internal bool IsInHand(long offset) => _core.IsInHand(offset);

    /// <summary>Moves a message to the dead letters, with an error of the caller's.</summary>
    internal void MoveToLetters(long offset, int attempts, string errorType, string error) =>
        _core.MoveToLetters(offset, errorType, error, attempts);

    /// <inheritdoc cref="MappedFileGroupMember.Flush()"/>
    public void Flush() => _core.Flush();

    /// <inheritdoc cref="MappedFileGroupMember.Dispose()"/>
    public void Dispose() => _queue.Close(_core, _letters, this);
}

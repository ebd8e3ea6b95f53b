using MappedFileQueues.Engine;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues;

/// <summary>
/// A member of a group of competing consumers of a queue of messages. Threads, deaths and order are as for
/// <see cref="MappedFileGroupMember{T}"/>.
/// </summary>
public sealed class MappedFileGroupMember : IDisposable
{
    private readonly StoreEngine _queue;
    private readonly GroupMember _core;
    private readonly IDisposable _letters;
    private ReusedWait<ReadOnlyMemory<byte>> _untilCopied;

    internal MappedFileGroupMember(StoreEngine queue, GroupMember core, IDisposable letters)
    {
        (_queue, _core, _letters) = (queue, core, letters);
        _untilCopied = new ReusedWait<ReadOnlyMemory<byte>>(core, TryCopy);
    }

    /// <summary>The group's name, in lower case.</summary>
    public string Group => _core.Group;

    /// <summary>The slot by which operators name this member (<c>mfq consumers members</c>).</summary>
    public int Slot => _core.Slot;

    /// <summary>The offset of the message that a call returned last; -1 before the first.</summary>
    public long MessageOffset => _core.MessageOffset;

    /// <summary>
    /// How often that message was handed out, this time included: 1, and one more for each member that died with it or rejected
    /// it. 63 stands for that or more.
    /// </summary>
    public int DeliveryCount => _core.DeliveryCount;

    /// <summary>How many messages this member has in hand.</summary>
    public int UnacknowledgedCount => _core.UnacknowledgedCount;

    /// <summary>
    /// A copy of the headers of the message at <see cref="MessageOffset"/>; null when it has none. Allocates.
    /// </summary>
    public MessageHeaders? Headers => _core.Reader.CopyHeaders(PublicNames.GroupMember);

    /// <summary>The same headers in place; empty when there are none. Valid as the message is. Allocates nothing.</summary>
    public MessageHeadersView HeadersInPlace => new(_core.Reader.GetHeaderBlock(PublicNames.GroupMember));

    /// <summary>
    /// Waits for a message and takes it, in place. It is valid until this member's next Consume or its Dispose. Each call takes
    /// the next one, whether or not those before are acknowledged.
    /// </summary>
    /// <returns>The message, in the mapping; may be empty.</returns>
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
    /// Waits for a message, takes it and deserializes it. If the deserializer throws, the message is in hand:
    /// <see cref="MessageOffset"/>.
    /// </summary>
    /// <typeparam name="TMessage">The message's type.</typeparam>
    /// <param name="deserializer">Creates the message from bytes in the mapping.</param>
    /// <returns>The message.</returns>
    public TMessage Consume<TMessage>(IMessageDeserializer<TMessage> deserializer)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        return deserializer.Deserialize(Consume());
    }

    /// <summary>Takes a message if there is one, without waiting.</summary>
    /// <param name="message">The message, valid as for Consume.</param>
    /// <returns>Whether there was a message.</returns>
    public bool TryConsume(out ReadOnlySpan<byte> message) => TryGet(TimeSpan.Zero, CancellationToken.None, out message);

    /// <summary>Takes a message, and waits for it up to a time limit.</summary>
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
    /// Waits for one message, then enumerates those that are there, each in place. The next Consume ends it. A message that came
    /// back comes alone, so that one that ends its process does not count against its neighbours.
    /// </summary>
    /// <param name="countMax">The largest number of messages to enumerate.</param>
    /// <param name="cancellationToken">Ends the wait for the first message.</param>
    /// <returns>The messages, for one foreach.</returns>
    public GroupBatch ConsumeBatch(int countMax = int.MaxValue, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(countMax);
        return new GroupBatch(_core, countMax, Timeout.InfiniteTimeSpan, cancellationToken);
    }

    /// <summary>The same for those that are there: it does not wait for the first one.</summary>
    internal GroupBatch ConsumeBatchNow(int countMax) => new(_core, countMax, TimeSpan.Zero, CancellationToken.None);

    /// <summary>Waits for a message without blocking a thread, and takes it.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>A copy that the caller owns.</returns>
    /// <exception cref="InvalidOperationException">Another call of this member is waiting, or as many messages are in hand as
    /// <see cref="GroupOptions.UnacknowledgedMax"/> allows.</exception>
    public ValueTask<ReadOnlyMemory<byte>> ConsumeAsync(CancellationToken cancellationToken = default) =>
        !_core.Reader.IsBarred && !cancellationToken.IsCancellationRequested && TryCopy(out ReadOnlyMemory<byte> message)
            ? new ValueTask<ReadOnlyMemory<byte>>(message)
            : ReusedWait<ReadOnlyMemory<byte>>.Start(ref _untilCopied, Timeout.InfiniteTimeSpan, cancellationToken);

    /// <summary>Waits until TryConsume would find a message. Another member may be faster.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Always true; on a disposed member the call throws.</returns>
    public ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        _core.WaitForMessageAsync(cancellationToken);

    /// <summary>
    /// Ends what the last call returned, of a batch as far as it was enumerated: no member gets these messages again. It survives
    /// the death of this process at once, and a power loss once the group was saved: within one
    /// <see cref="MappedFileQueueOptions.FlushInterval"/>, or after <see cref="Flush"/>.
    /// </summary>
    /// <exception cref="GroupMemberFencedException">An operator has taken messages away; the others are ended.</exception>
    public void Acknowledge() => _core.Acknowledge();

    /// <summary>Ends one message, in any order.</summary>
    /// <param name="offset">Its offset.</param>
    /// <exception cref="ArgumentException">The message is not in this member's hands.</exception>
    /// <exception cref="GroupMemberFencedException">An operator has taken the message away.</exception>
    public void Acknowledge(long offset) => _core.Acknowledge([offset]);

    /// <summary>Ends messages, in any order.</summary>
    /// <param name="offsets">Their offsets.</param>
    /// <exception cref="ArgumentException">One of them is not in this member's hands; none was ended.</exception>
    /// <exception cref="GroupMemberFencedException">An operator has taken some away; the others are ended.</exception>
    public void Acknowledge(ReadOnlySpan<long> offsets) => _core.Acknowledge(offsets);

    /// <summary>
    /// Gives a message back: some member of the group gets it again, alone, with a <see cref="DeliveryCount"/> one higher. Or
    /// moves it to the dead letters, which are on disk when the call returns.
    /// </summary>
    /// <param name="offset">The message's offset.</param>
    /// <param name="delay">How long nobody gets it; at most 30 days.</param>
    /// <param name="deadLetter">Moves it to the dead letters.</param>
    /// <param name="reason">Why, for the dead letter.</param>
    /// <exception cref="ArgumentException">The message is not in this member's hands, or the delay is out of range.</exception>
    /// <exception cref="GroupMemberFencedException">An operator has taken the message away.</exception>
    /// <exception cref="QueueFullException">8,192 messages of the group wait or are out alone; this one stays in
    /// hand.</exception>
    /// <exception cref="MappedFileQueueException">The dead letter cannot be written; the message stays in hand.</exception>
    public void Reject(long offset, TimeSpan delay = default, bool deadLetter = false, string? reason = null) =>
        _core.Reject(offset, delay, deadLetter, reason);

    /// <inheritdoc cref="GroupMember.IsInHand"/>
    internal bool IsInHand(long offset) => _core.IsInHand(offset);

    /// <summary>Moves a message to the dead letters, with an error of the caller's.</summary>
    internal void MoveToLetters(long offset, int attempts, string errorType, string error) =>
        _core.MoveToLetters(offset, errorType, error, attempts);

    /// <summary>Makes what is acknowledged survive a power loss.</summary>
    /// <exception cref="QueueDiskException">The disk refused.</exception>
    public void Flush() => _core.Flush();

    /// <summary>
    /// Ends the member, and gives back what it has in hand; that does not count as a delivery. Any thread. Ends waiting calls
    /// with <see cref="ObjectDisposedException"/>.
    /// </summary>
    public void Dispose() => _queue.Close(_core, _letters, this);

    private unsafe bool TryGet(TimeSpan timeout, CancellationToken cancellationToken, out ReadOnlySpan<byte> message)
    {
        bool found = _core.TryTake(timeout, cancellationToken, out byte* payload, out int length);
        message = found ? new ReadOnlySpan<byte>(payload, length) : default;
        return found;
    }

    private bool TryCopy(out ReadOnlyMemory<byte> copy)
    {
        bool found = TryConsume(out ReadOnlySpan<byte> message);
        copy = message.ToArray();
        // A Dispose on another thread need not keep anything mapped for it.
        _core.Reader.ForgetSpan();
        return found;
    }
}

/// <summary>Messages that a member of a group takes, one after the other, each in place in the mapping.</summary>
public ref struct GroupBatch
{
    private readonly GroupMember _member;
    private readonly CancellationToken _cancellationToken;
    private BatchPlace _place;
    private int _left;
    private TimeSpan? _timeout;

    internal GroupBatch(GroupMember member, int countMax, TimeSpan timeout, CancellationToken cancellationToken)
    {
        _member = member;
        _place = member.BeginBatch();
        _cancellationToken = cancellationToken;
        _left = countMax;
        _timeout = timeout;
    }

    /// <summary>The current message; valid until the next MoveNext or the next Consume of the member.</summary>
    public ReadOnlySpan<byte> Current { get; private set; }

    /// <summary>The current message's offset, by which it is acknowledged or rejected.</summary>
    public long Offset { get; private set; }

    /// <summary>The headers of the current message; valid as it is.</summary>
    public readonly MessageHeadersView HeadersInPlace =>
        _member is null || _timeout is not null ? default : new(_member.Reader.GetHeaderBlock(PublicNames.GroupMember));

    /// <summary>Supports foreach.</summary>
    /// <returns>This batch.</returns>
    public readonly GroupBatch GetEnumerator() => this;

    /// <summary>Moves to the next message. Waits for the first message only.</summary>
    /// <returns>Whether there is a message.</returns>
    public unsafe bool MoveNext()
    {
        if (_left == 0
            || !_member.TryTakeNext(ref _place, _timeout, _left, _cancellationToken, out byte* payload, out int length))
            return false;
        _left--;
        _timeout = null;
        Current = new ReadOnlySpan<byte>(payload, length);
        Offset = _member.MessageOffset;
        return true;
    }

    /// <summary>Gives back the messages that were taken together with those that were enumerated; foreach calls it.</summary>
    public readonly void Dispose()
    {
        // A default value has taken nothing.
        if (_member is not null)
            _member.GiveBackUnshown(in _place);
    }
}

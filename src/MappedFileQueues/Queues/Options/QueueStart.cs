namespace MappedFileQueues;

/// <summary>Where a new consumer or a reader starts.</summary>
public readonly struct QueueStart : IEquatable<QueueStart>
{
    private readonly byte _kind;
    private readonly long _offset;

    private QueueStart(byte kind, long offset)
    {
        _kind = kind;
        _offset = offset;
    }

    /// <summary>The oldest message that the store still holds; the default.</summary>
    public static QueueStart Earliest => default;

    /// <summary>After the last message that is published now.</summary>
    public static QueueStart Latest => new(1, 0);

    internal bool IsLatest => _kind == 1;

    /// <summary>The number of messages before the end; null for another start.</summary>
    internal long? CountFromEnd => _kind == 3 ? _offset : null;

    internal long? ExactOffset => _kind == 2 ? _offset : null;

    internal DateTimeOffset? Time => _kind == 4 ? new DateTimeOffset(_offset, TimeSpan.Zero) : null;

    internal long? MessageNumber => _kind == 5 ? _offset : null;

    /// <summary>
    /// Starts at an offset, which must be a frame's start or the tail. Any other offset causes an
    /// <see cref="OffsetOutOfRangeException"/> when the start is used.
    /// </summary>
    /// <param name="offset">An offset that Produce or a read returned.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="offset"/> is negative.</exception>
    public static QueueStart FromOffset(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        return new QueueStart(2, offset);
    }

    /// <summary>
    /// Starts so many messages before the end of those that are published now: <c>FromEnd(1)</c> at the last message. Begins with
    /// the oldest one when there are fewer. The start is found when it is used, by reading the headers of the segments that hold
    /// these messages; where they are damaged, that throws a <see cref="QueueCorruptException"/>, whatever the policy.
    /// </summary>
    /// <param name="messages">How many; 0 is the same place as <see cref="Latest"/>.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="messages"/> is negative.</exception>
    public static QueueStart FromEnd(long messages)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(messages);
        return messages == 0 ? Latest : new QueueStart(3, messages);
    }

    /// <summary>
    /// Starts so that no message of this time or later is missed: at the first one that may be. A message's time is its own, or
    /// else the time at which a flush counted it, up to one flush interval after it was appended. Where messages have no time of
    /// their own, this begins up to 1 MiB of log too early, never too late, whatever clocks did. A time before all messages is
    /// the oldest one, a time after all is <see cref="Latest"/>.
    /// </summary>
    /// <param name="time">The time.</param>
    public static QueueStart FromTime(DateTimeOffset time) => new(4, time.UtcTicks);

    /// <summary>
    /// Starts at the message of a number: so many messages are before it since the first one of the log, or since <see
    /// cref="MappedFileQueueInfo.NumberedFrom"/>. The number after the last message's is <see cref="Latest"/>. For a message that
    /// was removed, or is not there yet, the use of the start throws an <see cref="OffsetOutOfRangeException"/>.
    /// </summary>
    /// <param name="messageNumber">The number; 0 is the first message.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="messageNumber"/> is negative.</exception>
    public static QueueStart FromMessage(long messageNumber)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(messageNumber);
        return new QueueStart(5, messageNumber);
    }

    /// <summary>Whether both mean the same position.</summary>
    public static bool operator ==(QueueStart left, QueueStart right) => left.Equals(right);

    /// <summary>Whether they mean different positions.</summary>
    public static bool operator !=(QueueStart left, QueueStart right) => !left.Equals(right);

    /// <inheritdoc/>
    public bool Equals(QueueStart other) => _kind == other._kind && _offset == other._offset;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is QueueStart other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(_kind, _offset);

    /// <inheritdoc/>
    public override string ToString() => _kind switch
    {
        0 => "earliest",
        1 => "latest",
        2 => $"offset {_offset}",
        4 => $"time {Time:u}",
        5 => $"message {_offset}",
        _ => $"{_offset} before the end",
    };
}

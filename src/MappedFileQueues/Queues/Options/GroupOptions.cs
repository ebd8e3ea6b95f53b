using MappedFileQueues.Format.Groups;

namespace MappedFileQueues;

/// <summary>
/// Options of one member of a group. Members of a group may have different ones; <see cref="Start"/> counts for whoever makes the
/// group.
/// </summary>
public sealed record GroupOptions
{
    /// <summary>The most messages that a member can have in hand.</summary>
    internal const int UnacknowledgedLimit = 4096;

    /// <summary>Where a new group starts. Default: the oldest message.</summary>
    public QueueStart Start { get; init; }

    /// <summary>
    /// How often a message is handed out before this member moves it to the dead letters instead. Deaths of members and rejects
    /// count. 0: without end. Default: 5; at most 62.
    /// </summary>
    public int DeliveriesMax { get; init; } = 5;

    /// <summary>
    /// The directory of the store of dead letters. Null, the default: that of the queue with "-dead-letters". The store is made
    /// with the first letter.
    /// </summary>
    public string? DeadLetterPath { get; init; }

    /// <summary>
    /// How many messages this member may have in hand: at it, a call that would take more throws
    /// <see cref="InvalidOperationException"/>. 1 to 4,096, the default.
    /// </summary>
    public int UnacknowledgedMax { get; init; } = UnacknowledgedLimit;

    /// <summary>
    /// Whether the member gets only messages below the durable offset, which no power loss can take back. Default false. Flushes
    /// wake it, whichever process makes them; without a flush it sees nothing new.
    /// </summary>
    public bool DurableOnly { get; init; }

    /// <summary>
    /// What the member does where the log is damaged. Default: what the queue's options say
    /// (<see cref="MappedFileQueueOptions.Corruption"/>).
    /// </summary>
    public CorruptionPolicy? Corruption { get; init; }

    /// <summary>
    /// What the member does when messages that nobody has got yet were removed. Default: it throws. With
    /// <see cref="OutOfRangePolicy.Earliest"/> and <see cref="OutOfRangePolicy.Latest"/> it raises MessagesSkipped on the queue
    /// and hands out the messages from there on.
    /// </summary>
    public OutOfRangePolicy OnOutOfRange { get; init; }

    /// <summary>Reserved for order by key: how many shards the keys are spread over. Must be 0.</summary>
    public int KeyShards { get; init; }

    /// <summary>Checks the options; each exception names its option.</summary>
    internal void Validate()
    {
        ArgumentOutOfRangeException.ThrowIfNegative(DeliveriesMax);
        ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(DeliveriesMax, LeaseState.DeliveriesMax);
        ArgumentOutOfRangeException.ThrowIfLessThan(UnacknowledgedMax, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(UnacknowledgedMax, UnacknowledgedLimit);
        ArgumentOutOfRangeException.ThrowIfNegative(KeyShards);
        if (KeyShards > 0)
            throw new NotSupportedException(
                $"Order by key is not there yet: shards={KeyShards}. Use 0; any member gets any message then.");
        if (DeadLetterPath is not null)
            ArgumentException.ThrowIfNullOrWhiteSpace(DeadLetterPath);
        ConsumerOptions.ThrowIfUndefined(Corruption, OnOutOfRange);
    }
}

namespace MappedFileQueues;

/// <summary>Options for opening a consumer.</summary>
public readonly struct ConsumerOptions
{
    /// <summary>Where the consumer starts when its name is new. Default: the oldest message.</summary>
    public QueueStart Start { get; init; }

    /// <summary>
    /// Whether the consumer sees only messages below the durable offset, which no power loss can take back. Default false.
    /// Flushes wake it, whichever process makes them; without a flush it sees nothing new.
    /// </summary>
    public bool DurableOnly { get; init; }

    /// <summary>
    /// What the consumer does where the log is damaged. Default: what the queue's options say
    /// (<see cref="MappedFileQueueOptions.Corruption"/>).
    /// </summary>
    public CorruptionPolicy? Corruption { get; init; }

    /// <summary>
    /// What the consumer does when the messages at its offset were removed, at its opening or later. Default: it throws.
    /// <see cref="OutOfRangePolicy.Earliest"/> and <see cref="OutOfRangePolicy.Latest"/> raise MessagesSkipped on the queue and
    /// store the new offset.
    /// </summary>
    public OutOfRangePolicy OnOutOfRange { get; init; }

    /// <summary>Checks the options; each exception names its option.</summary>
    internal void Validate() => ThrowIfUndefined(Corruption, OnOutOfRange);

    /// <summary>A policy that is none would skip what the caller wants to hear of.</summary>
    internal static void ThrowIfUndefined(CorruptionPolicy? corruption, OutOfRangePolicy onOutOfRange)
    {
        // Not Enum.IsDefined: a fresh process would compile it before its first message.
        if (corruption is < CorruptionPolicy.Throw or > CorruptionPolicy.SkipSegment)
            throw new ArgumentOutOfRangeException(nameof(Corruption), corruption, "Not a defined policy.");
        if (onOutOfRange is < OutOfRangePolicy.Throw or > OutOfRangePolicy.Latest)
            throw new ArgumentOutOfRangeException(nameof(OnOutOfRange), onOutOfRange, "Not a defined policy.");
    }
}

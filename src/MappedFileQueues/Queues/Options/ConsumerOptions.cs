namespace MappedFileQueues;

/// <summary>How a consumer is opened.</summary>
public readonly struct ConsumerOptions
{
    /// <summary>Where it begins when its name is new; default at the oldest message.</summary>
    public QueueStart Start { get; init; }

    /// <summary>
    /// It sees only messages below the confirmed offset: what it read no power cut takes back. It is woken by flushes, of
    /// whatever process; where nobody flushes it sees nothing new. Default false.
    /// </summary>
    public bool DurableOnly { get; init; }

    /// <summary>
    /// What it does where the log is damaged; default what the queue's options say
    /// (<see cref="MappedFileQueueOptions.Corruption"/>).
    /// </summary>
    public CorruptionPolicy? Corruption { get; init; }
}

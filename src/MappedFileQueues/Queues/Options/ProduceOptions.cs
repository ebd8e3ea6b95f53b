namespace MappedFileQueues;

/// <summary>Options of one Produce call.</summary>
public readonly struct ProduceOptions
{
    /// <summary>The durability level of this message; null, the default, for the queue's level.</summary>
    public DurabilityLevel? Durability { get; init; }

    /// <summary>
    /// How long the call waits for consumers (<see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/>) and for its flush, both
    /// together; null, the default, means without limit. A <see cref="TimeoutException"/> says which of the two was not done:
    /// either nothing was appended, or the message stays appended and readable, and its durability is unknown. A flush that the
    /// calling thread makes itself is not interrupted.
    /// </summary>
    public TimeSpan? Timeout { get; init; }

    /// <summary>
    /// Cancels the call. A call cancelled before anything is written, or while it waits for consumers, appends nothing. A call
    /// cancelled while it waits for its flush leaves the message appended and readable, with its durability unknown. The
    /// exception's message says which of the two happened.
    /// </summary>
    public CancellationToken CancellationToken { get; init; }

    /// <summary>
    /// What the message carries beside its bytes; null, the default, for nothing. In a batch each message gets it.
    /// </summary>
    public MessageHeaders? Headers { get; init; }
}

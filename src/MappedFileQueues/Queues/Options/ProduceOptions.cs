namespace MappedFileQueues;

/// <summary>Options of one Produce call.</summary>
public readonly struct ProduceOptions
{
    /// <summary>The durability level of this message; null, the default, for the queue's level.</summary>
    public DurabilityLevel? Durability { get; init; }

    /// <summary>
    /// How long the call waits for its flush; null, the default, means without limit. After a <see cref="TimeoutException"/> the
    /// message stays appended and readable; its durability is unknown. A flush that the calling thread makes itself is not
    /// interrupted.
    /// </summary>
    public TimeSpan? Timeout { get; init; }

    /// <summary>
    /// Cancels the call. A call cancelled before anything is written appends nothing. A call cancelled while it waits for its
    /// flush leaves the message appended and readable, with its durability unknown. The exception's message says which of the two
    /// happened.
    /// </summary>
    public CancellationToken CancellationToken { get; init; }
}

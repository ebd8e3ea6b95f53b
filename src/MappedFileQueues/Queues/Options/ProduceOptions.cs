namespace MappedFileQueues;

/// <summary>Options of one Produce call.</summary>
public readonly struct ProduceOptions
{
    /// <summary>The level of this message; null, the default, for the queue's.</summary>
    public DurabilityLevel? Durability { get; init; }

    /// <summary>
    /// How long the call waits for its flush; null, the default, as long as it takes. Afterwards <see
    /// cref="TimeoutException"/>: the message is appended and readable, only its durability is not known yet. A flush that the
    /// calling thread carries out itself is not interrupted.
    /// </summary>
    public TimeSpan? Timeout { get; init; }

    /// <summary>
    /// Cancelled before anything is written, nothing is appended; cancelled while the call waits for its flush, the message is
    /// appended and readable, and its durability not known yet. The exception's message tells which.
    /// </summary>
    public CancellationToken CancellationToken { get; init; }
}

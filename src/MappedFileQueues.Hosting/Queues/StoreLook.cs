namespace MappedFileQueues.Hosting.Queues;

/// <summary>What one look at a store has found.</summary>
internal sealed class StoreLook
{
    /// <summary>When it was made, by <see cref="TimeProvider.GetTimestamp"/>.</summary>
    public required long Timestamp { get; init; }

    /// <summary>The store; null when the look failed.</summary>
    public MappedFileQueueInfo? Info { get; init; }

    /// <summary>The queue's own counters; null when the look failed.</summary>
    public MappedFileQueueStatistics? Statistics { get; init; }

    /// <summary>Why the look failed; null when it did not.</summary>
    public Exception? Error { get; init; }

    /// <summary>The free bytes of the store's disk; null where the system does not tell.</summary>
    public long? FreeBytes { get; init; }

    /// <summary>How long messages have been waiting for the disk; zero when all is flushed.</summary>
    public TimeSpan UnflushedAge { get; init; }

    /// <summary>For each consumer of <see cref="Info"/>, how long its oldest message has been there.</summary>
    public IReadOnlyList<TimeSpan> LagTimes { get; init; } = [];

    /// <summary>For each open claim of <see cref="Info"/>, how long it has been seen.</summary>
    public IReadOnlyList<TimeSpan> ClaimAges { get; init; } = [];
}

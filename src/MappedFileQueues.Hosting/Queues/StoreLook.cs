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

    /// <summary>How far behind each consumer and each group of <see cref="Info"/> is.</summary>
    public IReadOnlyList<LagLook> Lags { get; init; } = [];

    /// <summary>For each open claim of <see cref="Info"/>, how long it has been seen.</summary>
    public IReadOnlyList<TimeSpan> ClaimAges { get; init; } = [];
}

/// <summary>How far behind a consumer or a group is.</summary>
/// <param name="Name">The consumer's name; a group's with <see cref="QueueNames.NameOfGroup"/>.</param>
/// <param name="Offset">What is before it is done.</param>
/// <param name="Bytes">What is not done, headers and padding included.</param>
/// <param name="Time">How long its oldest message has been there.</param>
internal sealed record LagLook(string Name, long Offset, long Bytes, TimeSpan Time);

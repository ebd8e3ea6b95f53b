namespace MappedFileQueues.Log.StoreFiles;

/// <summary>What the engine takes from the user's options; copied when a queue is made, and never changed.</summary>
internal sealed record LogSettings
{
    public required long PrepareAhead { get; init; }

    public required TimeSpan SpinDuration { get; init; }

    public required TimeSpan RetryInterval { get; init; }

    public required long FlushEveryCount { get; init; }

    /// <summary>
    /// The level is Interval or Group: what is published is flushed within the interval by every attached queue.
    /// </summary>
    public required bool FlushesAtIntervals { get; init; }

    public required TimeSpan FlushInterval { get; init; }

    /// <summary>Room ahead of the tail is written, and not only allocated.</summary>
    public required bool WritesAhead { get; init; }

    public required bool Exclusive { get; init; }

    public required bool WriteChecksum { get; init; }

    public required bool VerifyChecksum { get; init; }

    public required TimeSpan LockTimeout { get; init; }

    public required UnixFileMode? UnixCreateMode { get; init; }

    public required TimeProvider TimeProvider { get; init; }

    /// <summary>
    /// For tests that compare bytes: the identity of a store that is made; null, as everywhere else, for a random one.
    /// </summary>
    public Guid? StoreId { get; init; }
}

namespace MappedFileQueues;

/// <summary>
/// How much of its past a store keeps. The policy lives in the store: every process that has the store open applies it, whichever
/// process set it. Retention deletes whole segments, the oldest first; the segment that producers append to, and what the last
/// checkpoint does not cover, always stay. Limits that are null do not count; the first limit that is exceeded deletes.
/// </summary>
public sealed record RetentionOptions
{
    /// <summary>The most bytes that the segments of the log take, the current one counted whole.</summary>
    public long? MaxBytes { get; init; }

    /// <summary>
    /// How long a segment is kept after it was completed. The time is that of the last write to the file, as the file system
    /// tells it.
    /// </summary>
    public TimeSpan? MaxAge { get; init; }

    /// <summary>The least bytes that stay free on the file system that holds the store.</summary>
    public long? MinFreeBytes { get; init; }

    /// <summary>
    /// Never delete what a consumer with a stored offset has not committed, whatever the limits say. Default true. A consumer that
    /// never commits then keeps the whole log.
    /// </summary>
    public bool KeepUnconsumed { get; init; } = true;

    /// <summary>Some limit is set.</summary>
    internal bool HasLimit => MaxBytes is not null || MaxAge is not null || MinFreeBytes is not null;

    /// <exception cref="ArgumentOutOfRangeException">A limit is negative.</exception>
    internal void ThrowIfInvalid()
    {
        if (MaxBytes is { } bytes)
            ArgumentOutOfRangeException.ThrowIfNegative(bytes, nameof(MaxBytes));
        if (MaxAge is { } age)
            ArgumentOutOfRangeException.ThrowIfLessThan(age, TimeSpan.Zero, nameof(MaxAge));
        if (MinFreeBytes is { } free)
            ArgumentOutOfRangeException.ThrowIfNegative(free, nameof(MinFreeBytes));
    }
}

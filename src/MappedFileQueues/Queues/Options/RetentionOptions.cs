namespace MappedFileQueues;

/// <summary>
/// How much of its past a store keeps. The policy lives in the store: every process that has the store open applies it, whichever
/// process set it. Retention removes whole segments, the oldest first; the segment that producers append to always stays. Limits
/// that are null do not count, and none may be 0; a segment goes as soon as one limit says so. Removed messages need no flush: a
/// power loss does not bring them back.
/// </summary>
public sealed record RetentionOptions
{
    /// <summary>
    /// The most bytes that the segments of the log take, the current one counted whole; at least one segment stays. For a short
    /// time there may be more, and segments that are prepared ahead or wait to be used again come on top.
    /// </summary>
    public long? MaxBytes { get; init; }

    /// <summary>
    /// How long a segment is kept after it was completed. The time is that of the last write to its file; the producer that
    /// continues in the next segment sets it. A file that was copied without its time counts from the copy. One with a time to
    /// come goes with the first after it that is old.
    /// </summary>
    public TimeSpan? MaxAge { get; init; }

    /// <summary>
    /// The least bytes that stay free on the file system that holds the store. While there are fewer, no file is kept to be used
    /// again. A file that a process still maps gives no room when it is removed. One that a snapshot shares gives none either,
    /// so it goes only with a later one that does.
    /// </summary>
    public long? MinFreeBytes { get; init; }

    /// <summary>
    /// Whether everything is kept that a consumer with a stored offset has not committed, whatever the limits say. Default true.
    /// A consumer that never commits then keeps the whole log, also when no process has it open;
    /// see <see cref="UnconsumedBytesMax"/>.
    /// </summary>
    public bool KeepUnconsumed { get; init; } = true;

    /// <summary>
    /// A consumer that is further behind than this keeps nothing any longer: when a limit says so, its messages go, and the
    /// consumer is dropped. It learns of that at its next read or commit (<see cref="ConsumerOptions.OnOutOfRange"/>). Null, the
    /// default: no consumer is dropped.
    /// </summary>
    public long? UnconsumedBytesMax { get; init; }

    /// <summary>
    /// Whether the files of removed segments become the next segments; default true. A file whose pages are in memory and whose
    /// blocks are on disk costs a fraction of a new one. A few such files wait in the store's folder. A file that a process
    /// still maps, or that has another name (a hard link), is never used again, and none is on a system without the calls of
    /// Linux.
    /// </summary>
    public bool Recycle { get; init; } = true;

    /// <summary>Some limit is set.</summary>
    internal bool HasLimit => MaxBytes is not null || MaxAge is not null || MinFreeBytes is not null;

    /// <summary>Zero is refused too: it would remove all that may go, and somebody may mean that there is no limit.</summary>
    /// <exception cref="ArgumentOutOfRangeException">A limit is zero or negative.</exception>
    internal void ThrowIfInvalid()
    {
        Check(MaxBytes, MaxBytes, nameof(MaxBytes));
        Check(MaxAge?.Ticks, MaxAge, nameof(MaxAge));
        Check(MinFreeBytes, MinFreeBytes, nameof(MinFreeBytes));
        Check(UnconsumedBytesMax, UnconsumedBytesMax, nameof(UnconsumedBytesMax));
    }

    private static void Check(long? number, object? value, string name)
    {
        if (number <= 0)
            throw new ArgumentOutOfRangeException(name, value, $"{name} must be more than 0. Leave it out for no limit.");
    }
}

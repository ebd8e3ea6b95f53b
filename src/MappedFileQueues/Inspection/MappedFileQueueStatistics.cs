namespace MappedFileQueues;

/// <summary>
/// What one queue object has done itself since it was opened; other processes and other queues on the same store count for
/// themselves. <see cref="MappedFileQueueInfo"/> tells of the store.
/// </summary>
public sealed class MappedFileQueueStatistics
{
    /// <summary>
    /// Whether opening recovered the store after a power loss, a loss of memory or a failed flush. What was beyond the end of the
    /// whole messages is in the store's folder `salvage`.
    /// </summary>
    public bool RecoveredAfterPowerLoss { get; init; }

    /// <summary>How many claims of dead producers became padding while the store was opened.</summary>
    public int RepairedAtOpening { get; init; }

    /// <summary>The number of flushes that this queue made itself and that succeeded.</summary>
    public long FlushCount { get; init; }

    /// <summary>The time that they took, all together.</summary>
    public TimeSpan FlushDuration { get; init; }

    /// <summary>The time that the longest of them took.</summary>
    public TimeSpan FlushDurationMax { get; init; }

    /// <summary>When the last of them ended, in UTC; null before the first.</summary>
    public DateTimeOffset? LastFlush { get; init; }

    /// <summary>How often this queue waited a second or longer for a lock of the store, whether it got it or not.</summary>
    public long LongLockWaitCount { get; init; }

    /// <summary>The longest of these waits; zero without one.</summary>
    public TimeSpan LongLockWaitMax { get; init; }

    /// <summary>The file of the lock that the last of them was for, relative to the store; null without one.</summary>
    public string? LastLongLockWait { get; init; }
}

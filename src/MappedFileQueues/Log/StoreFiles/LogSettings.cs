using MappedFileQueues.Format.Headers;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>The user's options as the engine sees them: copied when a queue is created, and never changed.</summary>
/// <param name="options">The options; the caller has checked them.</param>
internal sealed class LogSettings(MappedFileQueueOptions options)
{
    public long PrepareAhead { get; } = options.PrepareAhead;

    public TimeSpan SpinDuration { get; } =
        Environment.ProcessorCount < 2 ? TimeSpan.Zero : options.ConsumerSpinWaitDuration;

    public TimeSpan RetryInterval { get; } = options.ConsumerRetryInterval;

    public long FlushEveryCount { get; } = options.ProducerForceFlushIntervalCount;

    /// <summary>The level is Interval or Group: every attached queue flushes published messages within the interval.</summary>
    public bool FlushesAtIntervals { get; } = options.Durability != DurabilityLevel.PageCache;

    public TimeSpan FlushInterval { get; } = OrForEver(options.FlushInterval);

    /// <summary>Room ahead of the tail is written, not only allocated.</summary>
    public bool WritesAhead { get; } = options.Durability == DurabilityLevel.Group && options.PreallocateByWriting;

    public bool Exclusive { get; } = options.ProducerMode == ProducerMode.Exclusive;

    public bool VerifyChecksum { get; } = options.Checksum == ChecksumMode.WriteAndVerify;

    /// <summary>How far producers may go beyond the slowest consumer; 0: without limit.</summary>
    public long UnconsumedBytesMax { get; } = options.MaxUnconsumedBytes;

    /// <summary>A producer that would go further throws; otherwise it waits.</summary>
    public bool ThrowsWhenFull { get; } = options.FullMode == FullMode.Throw;

    public TimeSpan LockTimeout { get; } = OrForEver(options.LockTimeout);

    public UnixFileMode? UnixCreateMode { get; } = options.UnixCreateMode;

    /// <summary>The store whose users share this one too when its folder is made.</summary>
    public string? RightsOf { get; } = options.RightsOf;

    public TimeProvider TimeProvider { get; } = GuardedClock.Of(options.TimeProvider);

    /// <summary>What the messages of this queue's producers are stamped with.</summary>
    public HeaderStamps Stamps { get; } = new(options.StampTime, options.StampTraceContext, options.TimeProvider);

    /// <summary>The long waits of this queue for locks, from its opening on.</summary>
    public LockWaits LockWaits { get; } = new();

    /// <summary>For tests that compare bytes: the identity of a new store. Otherwise null, for a random identity.</summary>
    public Guid? StoreId { get; } = options.StoreId;

    private static TimeSpan OrForEver(TimeSpan value) => value == Timeout.InfiniteTimeSpan ? TimeSpan.MaxValue : value;
}

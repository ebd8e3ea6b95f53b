using MappedFileQueues.Format.Headers;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>The user's options as the engine sees them: copied when a queue is created, and never changed.</summary>
internal sealed record LogSettings
{
    public required long PrepareAhead { get; init; }

    public required TimeSpan SpinDuration { get; init; }

    public required TimeSpan RetryInterval { get; init; }

    public required long FlushEveryCount { get; init; }

    /// <summary>The level is Interval or Group: every attached queue flushes published messages within the interval.</summary>
    public required bool FlushesAtIntervals { get; init; }

    public required TimeSpan FlushInterval { get; init; }

    /// <summary>Room ahead of the tail is written, not only allocated.</summary>
    public required bool WritesAhead { get; init; }

    public required bool Exclusive { get; init; }

    public required bool VerifyChecksum { get; init; }

    /// <summary>How far producers may go beyond the slowest consumer; 0: without limit.</summary>
    public required long UnconsumedBytesMax { get; init; }

    /// <summary>A producer that would go further throws; otherwise it waits.</summary>
    public required bool ThrowsWhenFull { get; init; }

    public required TimeSpan LockTimeout { get; init; }

    public required UnixFileMode? UnixCreateMode { get; init; }

    /// <summary>The store whose users share this one too when its folder is made.</summary>
    public string? RightsOf { get; init; }

    public required TimeProvider TimeProvider { get; init; }

    /// <summary>What the messages of this queue's producers are stamped with.</summary>
    public required HeaderStamps Stamps { get; init; }

    /// <summary>The long waits of this queue for locks, from its opening on.</summary>
    public LockWaits LockWaits { get; } = new();

    /// <summary>For tests that compare bytes: the identity of a new store. Otherwise null, for a random identity.</summary>
    public Guid? StoreId { get; init; }

    /// <summary>Checks the options, and copies them.</summary>
    /// <exception cref="ArgumentOutOfRangeException">An option is out of range.</exception>
    public static LogSettings From(MappedFileQueueOptions options)
    {
        options.Validate();
        return new LogSettings
        {
            PrepareAhead = options.PrepareAhead,
            SpinDuration = Environment.ProcessorCount < 2 ? TimeSpan.Zero : options.ConsumerSpinWaitDuration,
            RetryInterval = options.ConsumerRetryInterval,
            FlushesAtIntervals = options.Durability != DurabilityLevel.PageCache,
            FlushInterval = OrForEver(options.FlushInterval),
            WritesAhead = options.Durability == DurabilityLevel.Group && options.PreallocateByWriting,
            FlushEveryCount = options.ProducerForceFlushIntervalCount,
            Exclusive = options.ProducerMode == ProducerMode.Exclusive,
            VerifyChecksum = options.Checksum == ChecksumMode.WriteAndVerify,
            UnconsumedBytesMax = options.MaxUnconsumedBytes,
            ThrowsWhenFull = options.FullMode == FullMode.Throw,
            LockTimeout = OrForEver(options.LockTimeout),
            UnixCreateMode = options.UnixCreateMode,
            RightsOf = options.RightsOf,
            TimeProvider = GuardedClock.Of(options.TimeProvider),
            Stamps = new HeaderStamps(options.StampTime, options.StampTraceContext, options.TimeProvider),
            StoreId = options.StoreId,
        };
    }

    private static TimeSpan OrForEver(TimeSpan value) => value == Timeout.InfiniteTimeSpan ? TimeSpan.MaxValue : value;
}

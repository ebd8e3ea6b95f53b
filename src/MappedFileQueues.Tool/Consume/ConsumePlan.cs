namespace MappedFileQueues.Tool.Consume;

/// <summary>What `mfq consume` reads, from where, and as which consumer.</summary>
/// <param name="StorePath">The store's directory.</param>
/// <param name="Consumer">The consumer whose offset counts; null for a reader's own.</param>
/// <param name="IsCommitting">True if that consumer is moved.</param>
/// <param name="From">Where to begin instead of at the consumer's offset, or at the first message.</param>
/// <param name="LastCount">How many messages before the end to begin.</param>
/// <param name="SkipsDamage">True to continue after damage.</param>
/// <param name="LockTimeout">How long to wait for the consumer's name.</param>
/// <param name="AllowsFileSystem">True to commit on a network or FUSE file system too.</param>
internal sealed record ConsumePlan(
    string StorePath,
    string? Consumer,
    bool IsCommitting,
    QueueStart? From,
    long? LastCount,
    bool SkipsDamage,
    TimeSpan LockTimeout,
    bool AllowsFileSystem)
{
    /// <summary>What the source does where the log is damaged.</summary>
    public CorruptionPolicy Corruption => SkipsDamage ? CorruptionPolicy.SkipMessage : CorruptionPolicy.Throw;

    /// <summary>What a reader does whose messages were removed before it came to them.</summary>
    public OutOfRangePolicy OnOutOfRange { get; init; } = OutOfRangePolicy.Throw;

    /// <summary>A whole store from an offset on, as a reader that leaves no trace.</summary>
    /// <param name="storePath">The store's directory.</param>
    /// <param name="from">The offset; null for the first message.</param>
    /// <param name="skipsDamage">True to continue after damage.</param>
    public static ConsumePlan WithoutTrace(string storePath, long? from, bool skipsDamage) => new(
        storePath,
        Consumer: null,
        IsCommitting: false,
        from is { } offset ? QueueStart.FromOffset(offset) : null,
        LastCount: null,
        skipsDamage,
        LockTimeout: TimeSpan.Zero,
        AllowsFileSystem: false);

    /// <summary>Opens the store.</summary>
    /// <param name="onSkipped">Called for damage that is stepped over.</param>
    /// <param name="onGap">Called for messages that were removed.</param>
    public MessageSource Open(Action<CorruptionSkippedEventArgs> onSkipped, Action<MessagesSkippedEventArgs> onGap)
    {
        QueueStart? from = LastCount is { } count ? LastMessages.Find(StorePath, count, Corruption) : From;
        if (Consumer is not null && IsCommitting)
            return new ConsumerSource(this, Consumer, from, onSkipped);
        from ??= Consumer is null ? QueueStart.Earliest : StoreLook.StartOf(StorePath, Consumer);
        return new ReaderSource(this, from.Value, onSkipped, onGap);
    }
}

namespace MappedFileQueues.Tool.Consume;

/// <summary>What `mfq consume` reads, from where, and as whom.</summary>
/// <param name="StorePath">The store's directory.</param>
/// <param name="Consumer">Whose place counts; null for a reader's own.</param>
/// <param name="IsCommitting">Whether that consumer is moved.</param>
/// <param name="From">Where to begin instead of at the consumer's place, or at the first message.</param>
/// <param name="LastCount">Begin so many messages before the end.</param>
/// <param name="SkipsDamage">Read on behind damage.</param>
/// <param name="LockTimeout">How long to wait for the consumer's name.</param>
/// <param name="AllowsFileSystem">Commit on a network or FUSE file system too.</param>
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
    /// <summary>What is done where the log is damaged.</summary>
    public CorruptionPolicy Corruption => SkipsDamage ? CorruptionPolicy.SkipMessage : CorruptionPolicy.Throw;

    /// <summary>Opens the store; what is stepped over is told to <paramref name="onSkipped"/>.</summary>
    public MessageSource Open(Action<CorruptionSkippedEventArgs> onSkipped)
    {
        QueueStart? from = LastCount is { } count ? LastMessages.Find(StorePath, count, Corruption) : From;
        if (Consumer is not null && IsCommitting)
            return new ConsumerSource(this, Consumer, from, onSkipped);
        from ??= Consumer is null ? QueueStart.Earliest : StoreLook.StartOf(StorePath, Consumer);
        return new ReaderSource(StorePath, from.Value, Corruption, onSkipped);
    }
}

namespace MappedFileQueues.Tool.Consume;

/// <summary>What is read, from where, and as which consumer; by default a whole store, without a trace.</summary>
internal sealed record ConsumePlan(string StorePath)
{
    /// <summary>The consumer whose offset counts; null for a reader's own.</summary>
    public string? Consumer { get; init; }

    /// <summary>How the store is opened to move that consumer; null if nothing is committed.</summary>
    public MappedFileQueueOptions? Committing { get; init; }

    /// <summary>Where to begin instead of at the consumer's offset, or at the first message.</summary>
    public QueueStart? From { get; init; }

    /// <summary>How many messages before the end to begin.</summary>
    public long? LastCount { get; init; }

    /// <summary>True to continue after damage.</summary>
    public bool SkipsDamage { get; init; }

    /// <summary>What a reader does whose messages were removed before it came to them.</summary>
    public OutOfRangePolicy OnOutOfRange { get; init; } = OutOfRangePolicy.Throw;

    /// <summary>Opens the store. What is stepped over or was removed is told on standard error.</summary>
    public MessageSource Open()
    {
        CorruptionPolicy corruption = SkipsDamage ? CorruptionPolicy.SkipMessage : CorruptionPolicy.Throw;
        QueueStart? from = LastCount is { } count ? LastMessages.Find(StorePath, count, corruption) : From;
        if (Consumer is not null && Committing is not null)
        {
            Committing.Corruption = corruption;
            return new MessageSource(Committing, Consumer, from);
        }

        // Where the consumer would begin now: at its stored offset or, if there is none, at the first message.
        if (from is null && Consumer is not null && ConsumerName.Find(StoreInspector.Inspect(StorePath), Consumer) is { } stored)
            from = QueueStart.FromOffset(stored.Offset);
        return new MessageSource(MappedFileReader.Open(StorePath, from ?? QueueStart.Earliest, corruption, OnOutOfRange));
    }
}

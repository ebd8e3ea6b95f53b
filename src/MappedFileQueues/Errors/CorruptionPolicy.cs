namespace MappedFileQueues;

/// <summary>What a consumer or reader does where the log is damaged. Producers never step over damage.</summary>
public enum CorruptionPolicy
{
    /// <summary>
    /// Throws a <see cref="QueueCorruptException"/>. The position stays, so the next read meets the damage again.
    /// </summary>
    Throw,

    /// <summary>
    /// Continues with the next message that can be proved to be one: the one after the damaged frame when its length is credible,
    /// otherwise the next frame whose checksum matches its offset, otherwise the next segment. While nothing is certain yet, the
    /// consumer waits.
    /// </summary>
    SkipMessage,

    /// <summary>Continues with the next segment, even if the rest of this one is readable.</summary>
    SkipSegment,
}

/// <summary>Tells what damage a consumer or reader stepped over.</summary>
public sealed class CorruptionSkippedEventArgs : EventArgs
{
    internal CorruptionSkippedEventArgs(string consumerName, QueueCorruptException error, long offset, long nextOffset) =>
        (ConsumerName, Error, Offset, NextOffset) = (consumerName, error, offset, nextOffset);

    /// <summary>The name of the consumer that stepped over the damage; "" for the default consumer and for a reader.</summary>
    public string ConsumerName { get; }

    /// <summary>The damaged file, relative to the store.</summary>
    public string File => Error.File;

    /// <summary>The offset of the damage.</summary>
    public long Offset { get; }

    /// <summary>The offset at which reading continues.</summary>
    public long NextOffset { get; }

    /// <summary>The number of bytes stepped over, including headers and padding; at least 8.</summary>
    public long SkippedLength => NextOffset - Offset;

    /// <summary>The exception that <see cref="CorruptionPolicy.Throw"/> would have thrown.</summary>
    public QueueCorruptException Error { get; }
}

namespace MappedFileQueues;

/// <summary>What a consumer or reader does where the log is damaged. Producers never step over damage.</summary>
public enum CorruptionPolicy
{
    /// <summary>A <see cref="QueueCorruptException"/>; the place stays, and the next read meets it again.</summary>
    Throw,

    /// <summary>
    /// Reads on with the next message that can be proved to be one: behind the damaged frame where its length is believed, else
    /// with the next frame whose checksum fits its place, else with the next segment. Messages without a checksum prove nothing,
    /// so the rest of their segment is lost. Where nothing is certain yet, the consumer waits.
    /// </summary>
    SkipMessage,

    /// <summary>Reads on with the next segment, also when the rest of this one could be read.</summary>
    SkipSegment,
}

/// <summary>Damage was stepped over.</summary>
public sealed class CorruptionSkippedEventArgs : EventArgs
{
    internal CorruptionSkippedEventArgs(string consumerName, QueueCorruptException error, long offset, long nextOffset)
    {
        ConsumerName = consumerName;
        Error = error;
        Offset = offset;
        NextOffset = nextOffset;
    }

    /// <summary>Who stepped over it: the consumer's name; "" for the default consumer and for a reader.</summary>
    public string ConsumerName { get; }

    /// <summary>The damaged file, relative to the store.</summary>
    public string File => Error.File;

    /// <summary>Where the damage was met.</summary>
    public long Offset { get; }

    /// <summary>Where reading goes on.</summary>
    public long NextOffset { get; }

    /// <summary>Bytes that were stepped over, headers and padding included; at least 8.</summary>
    public long SkippedLength => NextOffset - Offset;

    /// <summary>What would have been thrown with <see cref="CorruptionPolicy.Throw"/>.</summary>
    public QueueCorruptException Error { get; }
}

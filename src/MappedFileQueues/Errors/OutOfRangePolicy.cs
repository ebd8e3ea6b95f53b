namespace MappedFileQueues;

/// <summary>What a consumer or reader does when the messages at its offset were removed.</summary>
public enum OutOfRangePolicy
{
    /// <summary>
    /// Throws an <see cref="OffsetOutOfRangeException"/>. The position stays, so the next read meets it again; move it with a
    /// seek.
    /// </summary>
    Throw,

    /// <summary>Continues at the oldest message that the store still holds.</summary>
    Earliest,

    /// <summary>Continues after the last message that is published then.</summary>
    Latest,
}

/// <summary>Tells how much a consumer or reader skipped because it was removed.</summary>
public sealed class MessagesSkippedEventArgs : EventArgs
{
    internal MessagesSkippedEventArgs(string consumerName, long offset, long nextOffset) =>
        (ConsumerName, Offset, NextOffset) = (consumerName, offset, nextOffset);

    /// <summary>The name of the consumer; "" for the default consumer and for a reader.</summary>
    public string ConsumerName { get; }

    /// <summary>The offset at which it would have read.</summary>
    public long Offset { get; }

    /// <summary>The offset at which it continues.</summary>
    public long NextOffset { get; }

    /// <summary>The number of bytes skipped, including headers and padding.</summary>
    public long SkippedLength => NextOffset - Offset;
}

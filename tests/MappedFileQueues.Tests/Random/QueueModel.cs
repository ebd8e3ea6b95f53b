using System.Collections.Immutable;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>What a queue with one consumer should be: a list of messages, the place of reading, the committed place.</summary>
internal sealed record QueueModel(ImmutableList<byte[]> Messages, int Read, int Committed, bool HasMessage)
{
    public static QueueModel Empty { get; } = new([], 0, 0, false);

    public QueueModel Add(params IEnumerable<byte[]> messages) => this with { Messages = Messages.AddRange(messages) };

    public QueueModel Consume() => this with { HasMessage = HasMessage || Read < Messages.Count };

    public QueueModel Advance() => HasMessage ? this with { Read = Read + 1, HasMessage = false } : this;

    public QueueModel Commit()
    {
        QueueModel behind = Advance();
        return behind with { Committed = behind.Read };
    }

    public QueueModel MoveTo(int index) => this with { Read = index, Committed = index, HasMessage = false };

    public QueueModel Rewind() => this with { Read = Committed, HasMessage = false };
}

internal enum Operation
{
    Produce,
    Batch,
    ClaimAndPublish,
    ClaimAndAbandon,
    Consume,
    ConsumeBatch,
    Advance,
    Commit,
    CommitAt,
    Rewind,
    SeekToStart,
    SeekToEnd,
    AdjustOffset,
    Reopen,
    Flush,
    ReadAll,
}

/// <summary>One random step; the number is a length, a count or a place, whatever the operation needs.</summary>
internal sealed record Step(Operation Operation, int Number)
{
    public override string ToString() => $"{Operation} {Number}";
}

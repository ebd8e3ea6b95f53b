using System.Collections.Immutable;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>
/// What a queue under retention should be: all messages that were ever appended, the log start, the policy, and
/// the consumers that have a cursor.
/// </summary>
internal sealed record RetentionModel(
    ImmutableList<(long Offset, byte[] Bytes)> Messages,
    long Oldest,
    RetentionOptions? Policy,
    ImmutableDictionary<string, ConsumerPlace> Consumers)
{
    public const long SegmentLength = 4096;

    public static RetentionModel Empty { get; } = new([], 0, null, ImmutableDictionary<string, ConsumerPlace>.Empty);

    /// <summary>The index of the oldest message that is kept.</summary>
    public int FirstKept => Messages.FindIndex(message => message.Offset >= Oldest) is >= 0 and var index
        ? index
        : Messages.Count;

    public RetentionModel Add(long offset, byte[] bytes) => this with { Messages = Messages.Add((offset, bytes)) };

    public RetentionModel With(string name, ConsumerPlace place) => this with { Consumers = Consumers.SetItem(name, place) };

    /// <summary>True when the message was removed; the end never is.</summary>
    public bool IsGone(int index) => index < FirstKept;

    /// <summary>Up to where the policy removes now, of itself.</summary>
    /// <param name="last">The start of the segment that stays in any case.</param>
    /// <param name="tail">What a consumer's distance is measured from.</param>
    /// <param name="cursors">The stored offsets.</param>
    public long OldestByPolicy(long last, long tail, IEnumerable<long> cursors)
    {
        if (Policy is not { } policy)
            return Oldest;
        long goal = Oldest;
        if (policy.MaxBytes is { } bytes)
            goal = Math.Max(goal, last - ((Math.Max(1, bytes / SegmentLength) - 1) * SegmentLength));
        // The model's steps use nothing between "all" and "nothing".
        if (policy.MaxAge == TimeSpan.FromTicks(1) || policy.MinFreeBytes == long.MaxValue)
            goal = Math.Max(goal, last);
        return OldestAfterTrim(goal, last, tail, cursors);
    }

    /// <summary>Up to where a removal before an offset goes.</summary>
    public long OldestAfterTrim(long before, long last, long tail, IEnumerable<long> cursors)
    {
        RetentionOptions policy = Policy ?? new RetentionOptions();
        long goal = Math.Max(Oldest, StartOf(Math.Min(before, last)));
        if (!policy.KeepUnconsumed)
            return goal;
        IEnumerable<long> holding = cursors.Where(
            cursor => cursor >= Oldest && cursor < goal && !(tail - cursor > policy.UnconsumedBytesMax));
        return holding.Select(StartOf).Append(goal).Min();
    }

    public static long StartOf(long offset) => offset - (offset % SegmentLength);
}

/// <summary>Where a consumer reads, and what it has committed: indices of messages.</summary>
internal sealed record ConsumerPlace(int Read, int Committed, bool HasMessage = false)
{
    public ConsumerPlace Advance() => HasMessage ? this with { Read = Read + 1, HasMessage = false } : this;

    public ConsumerPlace Commit()
    {
        ConsumerPlace behind = Advance();
        return behind with { Committed = behind.Read };
    }

    public ConsumerPlace Rewind() => new(Committed, Committed);

    public static ConsumerPlace At(int index) => new(index, index);
}

internal enum RetentionOperation
{
    Produce,
    Batch,
    Abandon,
    Consume,
    Commit,
    Advance,
    Rewind,
    SeekToStart,
    SeekToEnd,
    AdjustOffset,
    OpenConsumer,
    CloseConsumer,
    DeleteConsumer,
    ResetConsumer,
    SetRetention,
    Trim,
    Snapshot,
    Reopen,
    ReadAll,
}

/// <summary>One random step; the number is a length, a place, a policy, whatever the operation needs.</summary>
internal sealed record RetentionStep(RetentionOperation Operation, string Consumer, int Number)
{
    public override string ToString() => $"{Operation} {Consumer} {Number}";
}

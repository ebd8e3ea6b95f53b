using System.Globalization;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Groups;

/// <summary>Whether a message has ended: acknowledged, or in the dead letters.</summary>
internal enum Ending
{
    No,

    /// <summary>Whoever ended it died over it, or a power loss may have taken it back.</summary>
    Maybe,
    Yes,
}

/// <summary>A message of the group's store.</summary>
internal sealed class GroupMessage(int producer, long number, int length)
{
    public int Producer => producer;

    public long Number => number;

    public int Length => length;

    /// <summary>-1: nobody has said, because the append did not return.</summary>
    public long Offset { get; set; } = -1;

    /// <summary>A flush that began after it was appended has returned.</summary>
    public bool IsDurable { get; set; }

    public Ending Ended { get; set; }

    /// <summary>No power loss may take its end back.</summary>
    public bool IsEndDurable { get; set; }

    public int Letters { get; set; }

    public GroupActor? Holder { get; set; }

    /// <summary>An operator has taken it from its holder, or is about to.</summary>
    public bool IsFenced { get; set; }

    /// <summary>Deaths and rejects that count for its deliveries: at least, and at most.</summary>
    public int ReturnsMin { get; set; }

    public int ReturnsMax { get; set; }

    public override string ToString() => string.Create(
        CultureInfo.InvariantCulture, $"message {Number} of producer {Producer} at {Offset}");
}

/// <summary>A message as it was at the moment of a picture.</summary>
internal readonly record struct MessagePicture(
    GroupMessage Message, long Offset, bool IsDurable, Ending Ended, bool IsEndDurable, int ReturnsMax);

/// <summary>What was known at the moment of a picture.</summary>
/// <param name="Messages">All that were appended.</param>
/// <param name="Slack">How often a message may have been taken that nobody saw.</param>
/// <param name="DropsBefore">
/// All before it may be dropped: the highest log start that anybody was told of, though its remover may have died over it.
/// </param>
/// <param name="Where">The moment.</param>
internal sealed record GroupPicture(IReadOnlyList<MessagePicture> Messages, int Slack, long DropsBefore, string Where);

/// <summary>
/// What is known of the group: each message is delivered, ended once, and comes again only where its holder died, rejected it or
/// was fenced, or where a power loss took back an end that was not saved.
/// </summary>
internal sealed class GroupModel(int seed, GroupPlan plan)
{
    private readonly Dictionary<(int Producer, long Number), GroupMessage> _messages = [];
    private readonly Dictionary<int, long> _last = [];

    public int Seed => seed;

    public GroupPlan Plan => plan;

    public IEnumerable<GroupMessage> Messages => _messages.Values;

    /// <summary>Deaths and fences in the middle of calls that take messages: nobody knows which ones.</summary>
    public int Slack { get; set; }

    /// <summary>The highest floor that anybody has seen.</summary>
    public long Floor { get; set; }

    /// <summary>All before it was removed.</summary>
    public long LogStart { get; set; }

    /// <summary>With drops, all before it may be dropped.</summary>
    public long DropsBefore { get; set; }

    public long LastNumber(int producer) => _last.GetValueOrDefault(producer);

    public byte[] BytesOf(GroupMessage message) => LabMessage.Make(seed, message.Producer, message.Number, message.Length);

    public GroupMessage Add(int producer, long number, int length)
    {
        var message = new GroupMessage(producer, number, length);
        _messages[(producer, number)] = message;
        _last[producer] = number;
        return message;
    }

    public GroupMessage Find(ReadOnlySpan<byte> bytes, long offset)
    {
        (int producer, long number) = bytes.Length < LabMessage.HeadLength ? (-1, -1) : LabMessage.Head(bytes);
        if (!_messages.TryGetValue((producer, number), out GroupMessage? message) || !bytes.SequenceEqual(BytesOf(message))
            || (message.Offset >= 0 && message.Offset != offset))
            throw new LabViolation($"What is read at {offset} was not appended there: {LabMessage.Describe(bytes)}");
        message.Offset = offset;
        return message;
    }

    public GroupMessage? At(long offset) => _messages.Values.FirstOrDefault(message => message.Offset == offset);

    /// <summary>A member has got a message.</summary>
    public void Deliver(GroupMessage message, GroupActor actor, int deliveries, bool isFenced)
    {
        if (isFenced)
        {
            // It may have gone to another one, and have ended, before this call returned; or come back to this one meanwhile,
            // which then loses it a second time.
            message.ReturnsMax++;
            if (message.Holder is null && message.Ended != Ending.Yes)
                (message.Holder, message.IsFenced) = (actor, true);
            return;
        }

        if (message.Holder is { IsDead: false } holder && !message.IsFenced && !plan.Drops)
            throw new LabViolation($"{message} is in two hands, of {holder} and {actor}");
        if (message.Ended == Ending.Yes && !plan.Drops)
            throw new LabViolation($"{message} comes again after its end, to {actor}");
        CheckDeliveries(message, deliveries, Slack);
        (message.Holder, message.IsFenced) = (actor, false);
        (message.Ended, message.IsEndDurable) = (Ending.No, false);
    }

    public void CheckDeliveries(GroupMessage message, int deliveries, int slack)
    {
        if (deliveries < 1 + message.ReturnsMin || deliveries > 1 + message.ReturnsMax + slack)
            throw new LabViolation(
                $"{message} is delivered for the {deliveries}. time, and came back {message.ReturnsMin} to {message.ReturnsMax} "
                + $"times, or {slack} more");
    }

    public void CheckFloor(long floor, long seenBefore)
    {
        if (floor < seenBefore)
            throw new LabViolation($"The floor goes back from {seenBefore} to {floor}");
        GroupMessage? early = _messages.Values.FirstOrDefault(
            message => message.Offset >= LogStart && message.Offset < floor && message.Ended == Ending.No);
        if (early is not null && !plan.Drops)
            throw new LabViolation($"The floor is {floor}, and {early} has not ended");
        Floor = Math.Max(Floor, floor);
    }

    /// <summary>What is removed has ended.</summary>
    public void CheckRemoved(long logStart)
    {
        GroupMessage? lost = _messages.Values.FirstOrDefault(
            message => message.Offset >= 0 && message.Offset < logStart && message.Ended == Ending.No);
        if (lost is not null && !plan.Drops)
            throw new LabViolation($"All before {logStart} is removed, and {lost} has not ended");
        LogStart = Math.Max(LogStart, logStart);
    }

    public GroupPicture Picture(string where) => new(
        [
            .. _messages.Values.Select(message => new MessagePicture(
                message, message.Offset, message.IsDurable, message.Ended, message.IsEndDurable, message.ReturnsMax)),
        ],
        Slack, DropsBefore, where);

    /// <summary>Everybody has died, or the power was lost: what was read back is what there is.</summary>
    public void Restart(GroupPicture picture, bool isCut, GroupImage image)
    {
        (IReadOnlyDictionary<(int, long), long> offsets, long logStart) = (image.There, image.LogStart);
        _messages.Clear();
        _last.Clear();
        foreach (MessagePicture seen in picture.Messages)
        {
            GroupMessage message = seen.Message;
            bool isThere = offsets.TryGetValue((message.Producer, message.Number), out long offset);
            if (!isThere && (seen.Offset < 0 || seen.Offset >= logStart))
                continue;
            // Removed before it was on disk: its producer may have to append it again.
            if (!isThere && image.Known.TryGetValue(message.Producer, out long known) && message.Number > known)
                continue;
            message.Offset = isThere ? offset : seen.Offset;
            message.IsDurable = seen.IsDurable || (isCut && isThere);
            message.Ended = isCut && !seen.IsEndDurable && seen.Ended == Ending.Yes ? Ending.Maybe : seen.Ended;
            message.IsEndDurable = seen.IsEndDurable;
            (message.Holder, message.IsFenced) = (null, false);
            (message.ReturnsMin, message.ReturnsMax) = (0, seen.ReturnsMax + 1);
            _messages[(message.Producer, message.Number)] = message;
            _last[message.Producer] = Math.Max(_last.GetValueOrDefault(message.Producer), message.Number);
        }

        (Slack, Floor, LogStart, DropsBefore) = (picture.Slack, 0, logStart, plan.Drops ? logStart : 0);
    }
}

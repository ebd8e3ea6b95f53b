namespace MappedFileQueues.Tool.Consumers;

/// <summary>Who has a place in a log: a consumer, or a group at the first message that is not done.</summary>
/// <param name="Name">A consumer's name, or `group/NAME`, which no consumer has.</param>
/// <param name="Offset">The place.</param>
/// <param name="Lag">The bytes after it.</param>
/// <param name="LagTime">How long, at least, the message there has waited; null when nobody has noted a time.</param>
internal sealed record LogFollower(string Name, long Offset, long Lag, TimeSpan? LagTime)
{
    private const string GroupPrefix = "group/";

    /// <summary>All of a store.</summary>
    public static IReadOnlyList<LogFollower> Of(MappedFileQueueInfo info) =>
    [
        .. info.Consumers.Select(one => new LogFollower(one.Name, one.Offset, one.Lag, one.LagTime)),
        .. info.Groups.Select(one => new LogFollower(GroupPrefix + one.Name, one.FloorOffset, one.Lag, one.LagTime)),
    ];

    /// <summary>A name within a sentence.</summary>
    public static string Words(string name) => name.StartsWith(GroupPrefix, StringComparison.Ordinal)
        ? $"group {name[GroupPrefix.Length..]}"
        : $"consumer {ConsumerName.Show(name)}";

    /// <summary>What may be a name, as it is stored; null for something else.</summary>
    public static string? Parse(string given)
    {
        if (!given.StartsWith(GroupPrefix, StringComparison.Ordinal))
            return ConsumerName.Parse(given);
        string name = given[GroupPrefix.Length..];
        return name.Length > 0 && StoreNames.IsValidConsumer(name) ? given : null;
    }
}

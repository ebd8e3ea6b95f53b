namespace MappedFileQueues;

/// <summary>The state of a group of competing consumers, as its file shows it.</summary>
public sealed class MappedFileGroupInfo
{
    /// <summary>The group's name, in lower case.</summary>
    public string Name { get; init; } = "";

    /// <summary>Everything before it was handed out.</summary>
    public long NextOffset { get; init; }

    /// <summary>
    /// Everything before it is done. Retention and limits of unconsumed bytes take the group for a consumer there.
    /// </summary>
    public long FloorOffset { get; init; }

    /// <summary>
    /// Bytes of the log between the floor and the end of the published messages, including headers and padding.
    /// </summary>
    public long Lag { get; init; }

    /// <summary>
    /// The messages of the log from the floor on, done or not, up to the end of the published ones; null when they were not
    /// counted, or when damage is in the way.
    /// </summary>
    public long? LagMessages { get; init; }

    /// <summary>
    /// How long the message at <see cref="FloorOffset"/> has been there, at least; zero without a message, null when nothing
    /// tells.
    /// </summary>
    public TimeSpan? LagTime { get; init; }

    /// <summary>How many messages are in members' hands.</summary>
    public int OutCount { get; init; }

    /// <summary>How many messages came back, and wait for a member.</summary>
    public int ReturnedCount { get; init; }

    /// <summary>When the first of them is due, in UTC; null when none waits. A time that has passed: now.</summary>
    public DateTimeOffset? NextDue { get; init; }

    /// <summary>How many messages were given back since the group was made.</summary>
    public long GivenBackCount { get; init; }

    /// <summary>How many messages were moved to the dead letters since the group was made.</summary>
    public long DeadLetteredCount { get; init; }

    /// <summary>How often something was taken over from a member that died or was fenced, since the group was made.</summary>
    public long TakenOverCount { get; init; }

    /// <summary>The members that have messages in hand. Those without are not known.</summary>
    public IReadOnlyList<MappedFileGroupMemberInfo> Members { get; init; } = [];
}

/// <summary>A member of a group that has messages in hand.</summary>
public sealed class MappedFileGroupMemberInfo
{
    /// <summary>Its slot; -1 for what nobody holds, and the next look of a member gives back.</summary>
    public int Slot { get; init; }

    /// <summary>The process that took the slot last; 0 if unknown.</summary>
    public int ProcessId { get; init; }

    /// <summary>Whether it is alive; null where that cannot be known.</summary>
    public bool? IsAlive { get; init; }

    /// <summary>How many messages it has in hand.</summary>
    public int HeldCount { get; init; }

    /// <summary>How long it has had the oldest of them.</summary>
    public TimeSpan HeldFor { get; init; }
}

namespace MappedFileQueues.Format.Groups;

/// <summary>What a record of a group is.</summary>
internal enum LeaseKind
{
    /// <summary>Nothing of it is out. It is free, unless `next` names it.</summary>
    Done = 0,

    /// <summary>Its owner writes it. A range is out all the same when `next` names it.</summary>
    Filling = 1,

    /// <summary>Its messages are in the owner's hands.</summary>
    Held = 2,

    /// <summary>A single: the message waits for a member.</summary>
    Waiting = 3,
}

/// <summary>
/// The state word of a record, which changes by compare-and-swap only:
/// <code>
///  63                    32 31                    8 7        2 1  0
/// ┌────────────────────────┬───────────────────────┬──────────┬────┐
/// │ owner (slot 12 bits,   │ tag: counts the times │ deliver- │kind│
/// │ generation 20)         │ that it was taken     │ ies      │    │
/// └────────────────────────┴───────────────────────┴──────────┴────┘
/// </code>
/// The tag tells one use of a record from the next. A range that is done has no owner; bits 32 to 39 are then the upper bits of
/// its tag, so that a member that was stopped between its look and its compare-and-swap does not meet the same word again.
/// </summary>
internal readonly record struct LeaseState(ulong Word)
{
    public const int DeliveriesMax = 63;
    public const uint TagMask = 0xFF_FFFF;
    private const int DeliveriesShift = 2;
    private const int TagShift = 8;

    public LeaseKind Kind => (LeaseKind)(Word & 3);

    /// <summary>How often the message was handed out; 63: so often or more.</summary>
    public int Deliveries => (int)(Word >> DeliveriesShift) & DeliveriesMax;

    /// <summary>24 bits.</summary>
    public uint Tag => (uint)(Word >> TagShift) & TagMask;

    /// <summary>Slot and generation as in a claim; 0: nobody.</summary>
    public uint Owner => (uint)(Word >> 32);

    /// <summary>The tag of a range that is done: 32 bits.</summary>
    public uint WholeTag => Tag | (Owner << 24);

    public static LeaseState Make(LeaseKind kind, uint owner, uint tag, int deliveries) => new(
        (uint)kind | ((uint)Math.Clamp(deliveries, 0, DeliveriesMax) << DeliveriesShift)
        | ((ulong)(tag & TagMask) << TagShift) | ((ulong)owner << 32));

    /// <summary>A record that is done, with all 32 bits of its tag.</summary>
    public static LeaseState Done(uint wholeTag) => Make(LeaseKind.Done, wholeTag >> 24, wholeTag, 0);

    public LeaseState With(LeaseKind kind, uint owner) => Make(kind, owner, Tag, Deliveries);
}

/// <summary>The bits word of a range: bits 0-31 done, one a message; 32-63 the tag, of which the state has 24 bits.</summary>
internal readonly record struct LeaseBits(ulong Word)
{
    public uint Done => (uint)Word;

    public uint Tag => (uint)(Word >> 32);

    public static LeaseBits Make(uint tag, uint done) => new(done | ((ulong)tag << 32));

    /// <summary>The 32 bits of a tag of which the state has 24: the nearest one to this word's tag.</summary>
    public uint Widen(uint tag)
    {
        int ahead = (int)((tag - Tag) << 8) >> 8;
        return Tag + (uint)ahead;
    }

    /// <summary>Whether a tag comes before this word's tag: somebody has taken the range over since.</summary>
    public bool IsAfter(uint tag) => (int)((tag - Tag) << 8) < 0;

    /// <summary>The bits of the first messages.</summary>
    public static uint Mask(int count) => count >= GroupLayout.MessagesMax ? uint.MaxValue : (1u << count) - 1;
}

/// <summary>
/// What a single says about where it comes from: bits 0-15 the range, 16-39 the single's own tag, 40-63 the range's tag. Written
/// last; the own tag is that of the state only when all of it was written.
/// </summary>
internal readonly record struct SingleContent(ulong Word)
{
    public int Parent => (int)(Word & 0xFFFF);

    public uint OwnTag => (uint)(Word >> 16) & LeaseState.TagMask;

    public uint ParentTag => (uint)(Word >> 40);

    public static SingleContent Make(int parent, uint ownTag, uint parentTag) => new(
        (uint)parent | ((ulong)(ownTag & LeaseState.TagMask) << 16) | ((ulong)(parentTag & LeaseState.TagMask) << 40));
}

/// <summary>
/// When a single may be handed out: bits 0-39 monotonic milliseconds, 40-63 the single's tag. With another tag it is due now:
/// whoever took it from a dead owner wrote none.
/// </summary>
internal readonly record struct DueWord(ulong Word)
{
    private const ulong TimeMask = (1UL << 40) - 1;

    public static DueWord Make(uint tag, long dueMs) =>
        new(((ulong)Math.Max(0, dueMs) & TimeMask) | ((ulong)(tag & LeaseState.TagMask) << 40));

    /// <summary>Monotonic milliseconds; 0: now.</summary>
    public long DueFor(uint tag) => (uint)(Word >> 40) == (tag & LeaseState.TagMask) ? (long)(Word & TimeMask) : 0;
}

/// <summary>`next`: the record of the last hand-out, and how many there were.</summary>
internal readonly record struct NextWord(ulong Word)
{
    public int Record => (int)(Word & 0xFFFF);

    /// <summary>48 bits.</summary>
    public ulong Sequence => Word >> 16;

    public static NextWord Make(int record, ulong sequence) => new((uint)record | (sequence << 16));
}

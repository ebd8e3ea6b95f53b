namespace MappedFileQueues;

/// <summary>The state of a consumer, as its stored offset shows it.</summary>
public sealed class MappedFileConsumerInfo
{
    /// <summary>The consumer's name; "" for the default consumer.</summary>
    public string Name { get; init; } = "";

    /// <summary>The stored offset. Everything before it is done.</summary>
    public long Offset { get; init; }

    /// <summary>
    /// Bytes of the log between that offset and the end of the published messages, including headers and padding.
    /// </summary>
    public long Lag { get; init; }

    /// <summary>
    /// The messages of the log from that offset on, up to the end of the published ones; null when they were not counted, or when
    /// damage is in the way of counting. Asked for by <see cref="MappedFileQueue.GetInfo(bool)"/>.
    /// </summary>
    public long? LagMessages { get; init; }

    /// <summary>
    /// How long the message at that offset has been there, at least: by the message's own time if it has one, otherwise by the
    /// times that flushes note, which tell too little by a tenth at most, and by one flush interval. Zero when all messages are
    /// consumed; null when nothing tells, because no flush has passed the message, or damage is in the way.
    /// </summary>
    public TimeSpan? LagTime { get; init; }

    /// <summary>Whether a process holds the name now.</summary>
    public bool IsAttached { get; init; }
}

/// <summary>A claimed frame that is not published yet. Readers wait at it while its owner lives.</summary>
public sealed class MappedFileClaimInfo
{
    /// <summary>The offset of the frame.</summary>
    public long Offset { get; init; }

    /// <summary>The frame's length in bytes, without the header.</summary>
    public int Length { get; init; }

    /// <summary>The owner's slot.</summary>
    public int Slot { get; init; }

    /// <summary>The process that took the slot last; 0 if unknown.</summary>
    public int ProcessId { get; init; }
}

/// <summary>The state of a store: offsets, segments, consumers with their lag, attached processes, bytes on disk.</summary>
public sealed class MappedFileQueueInfo
{
    /// <summary>The store's directory.</summary>
    public string StorePath { get; init; } = "";

    /// <summary>The store's identity, created with it.</summary>
    public Guid StoreId { get; init; }

    /// <summary>The size of the struct in bytes; 0 for a queue of messages.</summary>
    public int StructSize { get; init; }

    /// <summary>The length of a segment in bytes.</summary>
    public long SegmentSize { get; init; }

    /// <summary>When the store was created.</summary>
    public DateTimeOffset Created { get; init; }

    /// <summary>
    /// The number of recoveries that cut something off after a power loss. (epoch, offset) identifies a message.
    /// </summary>
    public long Epoch { get; init; }

    /// <summary>The log start that the store still holds.</summary>
    public long LogStart { get; init; }

    /// <summary>What the store keeps of its past; null when it has no policy, or a damaged one, and keeps everything.</summary>
    public RetentionOptions? Retention { get; init; }

    /// <summary>The store has a policy that cannot be read: nothing is removed until it is set again.</summary>
    public bool IsRetentionDamaged { get; init; }

    /// <summary>The bytes that the policy's limits would remove now if no consumer kept them.</summary>
    public long RetentionHeldBytes { get; init; }

    /// <summary>
    /// The consumer that keeps them: the one that is furthest behind. Null when none does; "" is the default one; a group is
    /// "group/" and its name.
    /// </summary>
    public string? RetentionHeldBy { get; init; }

    /// <summary>
    /// The time in UTC since which retention has failed in some process: less than the policy says is removed, or nothing. Null
    /// while it succeeds, or none was tried. It is tried again each second; a success in any process clears it.
    /// </summary>
    public DateTimeOffset? RetentionFailingSince { get; init; }

    /// <summary>
    /// The error, shortened to 496 bytes; null when <see cref="RetentionFailingSince"/> is.
    /// </summary>
    public string? LastRetentionError { get; init; }

    /// <summary>
    /// The process whose retention fails; of several, the last to report it. Null when <see cref="RetentionFailingSince"/> is.
    /// </summary>
    public int? RetentionFailingProcessId { get; init; }

    /// <summary>
    /// For each cursor that cannot be read: which file it is, why, and what follows from it. Its consumer is not among <see
    /// cref="Consumers"/>.
    /// </summary>
    public IReadOnlyList<string> CursorProblems { get; init; } = [];

    /// <summary>Whether one of them can be read and holds no offset that a consumer stored; its problem is the first.</summary>
    internal bool HasDamagedCursor { get; init; }

    /// <summary>
    /// What a cheap look at the log's files has found, with a remedy: a segment that is missing, too short, or does not begin
    /// with a message, an end that is before what was reached, damage that keeps producers out, a damaged page of shared words.
    /// Empty when it has found nothing: messages are not read for it.
    /// </summary>
    public IReadOnlyList<string> FileProblems { get; init; } = [];

    /// <summary>The end of what readers can read.</summary>
    public long PublishedOffset { get; init; }

    /// <summary>
    /// The messages between <see cref="LogStart"/> and <see cref="PublishedOffset"/>; null when they were not counted, or
    /// when damage is in the way. Asked for by <see cref="MappedFileQueue.GetInfo(bool)"/>.
    /// </summary>
    public long? MessageCount { get; init; }

    /// <summary>
    /// The offset at which messages are numbered from 0: where the log began, or where counting had to begin anew. A message
    /// keeps its number as long as this stays the same.
    /// </summary>
    public long NumberedFrom { get; init; }

    /// <summary>
    /// How many messages were appended since <see cref="NumberedFrom"/>, as far as a short walk from the index tells; null
    /// without an index.
    /// </summary>
    internal long? AppendedMessages { get; init; }

    /// <summary>The offset at which the next frame will be written.</summary>
    public long TailOffset { get; init; }

    /// <summary>Everything before it is on disk.</summary>
    public long ConfirmedOffset { get; init; }

    /// <summary>How many claims of dead producers were turned into padding since a process last opened the store alone.</summary>
    public long RepairCount { get; init; }

    /// <summary>Whether an earlier flush failed.</summary>
    public bool IsPoisoned { get; init; }

    /// <summary>
    /// The time in UTC since which background flushes have failed; null while they succeed or none was tried. Messages appended
    /// since then may not be on disk. At <see cref="DurabilityLevel.Interval"/> and <see cref="DurabilityLevel.Group"/> Produce
    /// throws after two intervals, unless flushes only wait, at an open claim. A successful flush by any process clears it.
    /// </summary>
    public DateTimeOffset? FlushFailingSince { get; init; }

    /// <summary>
    /// The error of the last failed flush, shortened to 1,008 bytes; null when <see cref="FlushFailingSince"/> is.
    /// </summary>
    public string? LastFlushError { get; init; }

    /// <summary>
    /// The process whose flushes fail; of several, the last to report it. Null when <see cref="FlushFailingSince"/> is.
    /// </summary>
    public int? FlushFailingProcessId { get; init; }

    /// <summary>The number of segment files, including those created ahead.</summary>
    public int SegmentCount { get; init; }

    /// <summary>The disk space allocated to all files of the store that this user may open, in bytes.</summary>
    public long BytesOnDisk { get; init; }

    /// <summary>The consumers that have a stored offset.</summary>
    public IReadOnlyList<MappedFileConsumerInfo> Consumers { get; init; } = [];

    /// <summary>The groups of competing consumers.</summary>
    public IReadOnlyList<MappedFileGroupInfo> Groups { get; init; } = [];

    /// <summary>The claims that are open now. Those of dead producers are not among them: readers step over these.</summary>
    public IReadOnlyList<MappedFileClaimInfo> OpenClaims { get; init; } = [];

    /// <summary>The ids of the processes that have the store open; empty where the system does not tell.</summary>
    public IReadOnlyList<int> AttachedProcesses { get; init; } = [];

    /// <summary>The ids of the processes that have producers; empty where the system does not tell.</summary>
    public IReadOnlyList<int> ProducerProcesses { get; init; } = [];
}

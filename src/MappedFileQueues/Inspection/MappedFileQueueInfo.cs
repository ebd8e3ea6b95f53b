namespace MappedFileQueues;

/// <summary>A consumer as its stored offset shows it.</summary>
public sealed class MappedFileConsumerInfo
{
    /// <summary>Its name; "" is the default consumer.</summary>
    public string Name { get; init; } = "";

    /// <summary>What lies before it is done.</summary>
    public long Offset { get; init; }

    /// <summary>Bytes of the log between it and the last published message, headers and padding counted.</summary>
    public long Lag { get; init; }

    /// <summary>Whether some process holds the name now.</summary>
    public bool IsAttached { get; init; }
}

/// <summary>A claimed frame that was not published yet; readers wait at it while its owner lives.</summary>
public sealed class MappedFileClaimInfo
{
    /// <summary>Its place.</summary>
    public long Offset { get; init; }

    /// <summary>Its length in bytes, without the header.</summary>
    public int Length { get; init; }

    /// <summary>The owner's slot.</summary>
    public int Slot { get; init; }

    /// <summary>The process that took the slot last; 0 when unknown.</summary>
    public int ProcessId { get; init; }
}

/// <summary>A snapshot of a store: offsets, segments, consumers with their lag, who is attached, bytes on disk.</summary>
public sealed class MappedFileQueueInfo
{
    /// <summary>The store's directory.</summary>
    public string StorePath { get; init; } = "";

    /// <summary>The store's own identity, made with it.</summary>
    public Guid StoreId { get; init; }

    /// <summary>Bytes of the struct; 0 for a queue of messages.</summary>
    public int StructSize { get; init; }

    /// <summary>Length of a segment in bytes.</summary>
    public long SegmentSize { get; init; }

    /// <summary>When the store was made.</summary>
    public DateTimeOffset Created { get; init; }

    /// <summary>How many recoveries after a power cut took something off; (epoch, offset) identifies a message.</summary>
    public long Epoch { get; init; }

    /// <summary>The oldest offset that the store still holds.</summary>
    public long OldestOffset { get; init; }

    /// <summary>Readers can read up to here.</summary>
    public long PublishedOffset { get; init; }

    /// <summary>Where the next frame will go.</summary>
    public long TailOffset { get; init; }

    /// <summary>Everything before it is on disk.</summary>
    public long ConfirmedOffset { get; init; }

    /// <summary>
    /// Claims of dead producers that were turned into padding since the store was last opened by a lone process.
    /// </summary>
    public long RepairCount { get; init; }

    /// <summary>Whether an earlier flush has failed.</summary>
    public bool IsPoisoned { get; init; }

    /// <summary>
    /// Since when background flushes fail, in UTC; null while they succeed, or none was tried. What was appended since then may
    /// not be on disk; at <see cref="DurabilityLevel.Interval"/> and <see cref="DurabilityLevel.Group"/> Produce throws after two
    /// intervals. Whichever process flushes successfully clears it.
    /// </summary>
    public DateTimeOffset? FlushFailingSince { get; init; }

    /// <summary>What the last flush that failed said, shortened to 1,008 bytes; null as above.</summary>
    public string? LastFlushError { get; init; }

    /// <summary>The process whose flushes fail, of several the one that said so last; null as above.</summary>
    public int? FlushFailingProcessId { get; init; }

    /// <summary>Segment files, those made ahead counted.</summary>
    public int SegmentCount { get; init; }

    /// <summary>Blocks of all files of the store, in bytes.</summary>
    public long BytesOnDisk { get; init; }

    /// <summary>The consumers that have a stored offset.</summary>
    public IReadOnlyList<MappedFileConsumerInfo> Consumers { get; init; } = [];

    /// <summary>Claims that are open now.</summary>
    public IReadOnlyList<MappedFileClaimInfo> OpenClaims { get; init; } = [];

    /// <summary>Ids of the processes that have the store open; empty where the system does not tell.</summary>
    public IReadOnlyList<int> AttachedProcesses { get; init; } = [];

    /// <summary>Ids of the processes that have producers; empty where the system does not tell.</summary>
    public IReadOnlyList<int> ProducerProcesses { get; init; } = [];
}

using MappedFileQueues.Format;
using MappedFileQueues.Log;

namespace MappedFileQueues;

/// <summary>A consumer as its stored offset shows it.</summary>
/// <param name="Name">Its name; "" is the default consumer.</param>
/// <param name="Offset">What lies before it is done.</param>
/// <param name="Lag">Bytes of the log between it and the last published message, headers and padding counted.</param>
/// <param name="IsAttached">Whether some process holds the name now.</param>
public sealed record MappedFileConsumerInfo(string Name, long Offset, long Lag, bool IsAttached);

/// <summary>A claimed frame that was not published yet; readers wait at it while its owner lives.</summary>
/// <param name="Offset">Its place.</param>
/// <param name="Length">Its length in bytes, without the header.</param>
/// <param name="Slot">The owner's slot.</param>
/// <param name="ProcessId">The process that took the slot last; 0 when unknown.</param>
public sealed record MappedFileClaimInfo(long Offset, int Length, int Slot, int ProcessId);

/// <summary>A snapshot of a store: offsets, segments, consumers with their lag, who is attached, bytes on disk.</summary>
public sealed record MappedFileQueueInfo
{
    /// <summary>The store's directory.</summary>
    public required string StorePath { get; init; }

    /// <summary>The store's own identity, made with it.</summary>
    public required Guid StoreId { get; init; }

    /// <summary>Bytes of the struct; 0 for a queue of messages.</summary>
    public required int StructSize { get; init; }

    /// <summary>Length of a segment in bytes.</summary>
    public required long SegmentSize { get; init; }

    /// <summary>When the store was made.</summary>
    public required DateTimeOffset Created { get; init; }

    /// <summary>How many recoveries after a power cut took something off; (epoch, offset) identifies a message.</summary>
    public required long Epoch { get; init; }

    /// <summary>The first offset that the store still holds.</summary>
    public required long FirstOffset { get; init; }

    /// <summary>Readers can read up to here.</summary>
    public required long PublishedOffset { get; init; }

    /// <summary>Where the next frame will go.</summary>
    public required long TailOffset { get; init; }

    /// <summary>Everything before it is on disk.</summary>
    public required long ConfirmedOffset { get; init; }

    /// <summary>
    /// Claims of dead producers that were turned into padding since the store was last opened by a lone process.
    /// </summary>
    public required long RepairCount { get; init; }

    /// <summary>Whether an earlier flush has failed.</summary>
    public required bool IsPoisoned { get; init; }

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
    public required int SegmentCount { get; init; }

    /// <summary>Blocks of all files of the store, in bytes.</summary>
    public required long BytesOnDisk { get; init; }

    /// <summary>The consumers that have a stored offset.</summary>
    public required IReadOnlyList<MappedFileConsumerInfo> Consumers { get; init; }

    /// <summary>Claims that are open now.</summary>
    public required IReadOnlyList<MappedFileClaimInfo> OpenClaims { get; init; }

    /// <summary>Ids of the processes that have the store open; empty where the system does not tell.</summary>
    public required IReadOnlyList<int> AttachedProcesses { get; init; }

    /// <summary>Ids of the processes that have producers; empty where the system does not tell.</summary>
    public required IReadOnlyList<int> ProducerProcesses { get; init; }

    internal static MappedFileQueueInfo From(StoreStatus status) => new()
    {
        StorePath = status.Path,
        StoreId = status.Meta.StoreId,
        StructSize = status.Meta.Kind == StoreKind.Struct ? status.Meta.StructSize : 0,
        SegmentSize = status.Meta.SegmentLength,
        Created = status.Meta.Created,
        Epoch = status.Epoch,
        FirstOffset = status.First,
        PublishedOffset = status.PublishedOffset,
        TailOffset = status.TailOffset,
        ConfirmedOffset = status.ConfirmedOffset,
        RepairCount = status.RepairCount,
        IsPoisoned = status.IsPoisoned,
        FlushFailingSince = status.FlushFailure?.Since,
        LastFlushError = status.FlushFailure?.Text,
        FlushFailingProcessId = status.FlushFailure?.ProcessId,
        SegmentCount = status.SegmentCount,
        BytesOnDisk = status.BytesOnDisk,
        Consumers = [.. status.Consumers.Select(consumer => new MappedFileConsumerInfo(
            consumer.Name, consumer.Offset, Math.Max(0, status.PublishedOffset - consumer.Offset), consumer.IsAttached))],
        OpenClaims = [.. status.OpenClaims.Select(claim => new MappedFileClaimInfo(
            claim.Offset, claim.Length, claim.Slot, claim.ProcessId))],
        AttachedProcesses = status.AttachedProcesses,
        ProducerProcesses = status.ProducerProcesses,
    };
}

using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Verify;

/// <summary>A damaged stretch of the log.</summary>
internal sealed record DamagedRange(long Offset, long? NextOffset, string File, string Kind, string Reason)
{
    public long? Length => NextOffset - Offset;
}

/// <summary>Something about a file beside the log.</summary>
internal sealed record FileFinding(string File, bool IsDamage, string Reason, string Remedy)
{
    public string? Consumer { get; init; }

    /// <summary>The offset that the consumer's file holds; null when it is damaged, so that nobody knows.</summary>
    public long? Offset { get; init; }
}

/// <summary>What `mfq verify` has found.</summary>
internal sealed record StoreVerification
{
    public required string StorePath { get; init; }

    public required Guid StoreId { get; init; }

    public bool IsWhole => Damages.Count == 0 && Findings.All(finding => !finding.IsDamage);

    public long FirstOffset { get; set; }

    /// <summary>Where the check ended: the end of the log, unless it is damaged there.</summary>
    public long EndOffset { get; set; }

    /// <summary>
    /// Not null: the store was not opened since the machine was started, and from here on the next opener will cut off what is
    /// not whole. Only what is before it counts as damaged.
    /// </summary>
    public long? UnrecoveredFrom { get; set; }

    /// <summary>Everything before it is published, but for what is damaged.</summary>
    [JsonIgnore]
    public long SafeOffset { get; set; }

    /// <summary>Offsets of groups at which no frame begins.</summary>
    [JsonIgnore]
    public HashSet<long> MisplacedOffsets { get; } = [];

    public int SegmentCount { get; set; }
    public long MessageCount { get; set; }
    public long MessageBytes { get; set; }
    public long PaddingCount { get; set; }
    public int OpenClaimCount { get; set; }
    public int DeadClaimCount { get; set; }
    public int ProducerCount { get; set; }
    public double Seconds { get; set; }

    public List<DamagedRange> Damages { get; } = [];

    public List<FileFinding> Findings { get; } = [];
}

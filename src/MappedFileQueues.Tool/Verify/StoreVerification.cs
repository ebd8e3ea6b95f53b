using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Verify;

/// <summary>A damaged stretch of the log.</summary>
/// <param name="Offset">Where it begins.</param>
/// <param name="NextOffset">Where the log goes on; null when nothing after it is certain to be a message.</param>
/// <param name="File">The segment it begins in.</param>
/// <param name="Kind">
/// header, checksum, zeros, claim, length, batch: the frame there. missing, short, unreadable: its file.
/// </param>
/// <param name="Reason">The same in words.</param>
internal sealed record DamagedRange(long Offset, long? NextOffset, string File, string Kind, string Reason)
{
    /// <summary>The bytes between the two offsets.</summary>
    public long? Length => NextOffset - Offset;
}

/// <summary>Something about a file beside the log.</summary>
/// <param name="File">The file.</param>
/// <param name="IsDamage">False if the store mends it by itself, or if it is only worth knowing.</param>
/// <param name="Reason">What it is.</param>
/// <param name="Remedy">What to do, or what will happen.</param>
internal sealed record FileFinding(string File, bool IsDamage, string Reason, string Remedy)
{
    /// <summary>The consumer whose file this is; null for another file.</summary>
    public string? Consumer { get; init; }

    /// <summary>The offset that the consumer's file holds; null when it is damaged, so that nobody knows.</summary>
    public long? Offset { get; init; }
}

/// <summary>What `mfq verify` has found.</summary>
internal sealed record StoreVerification
{
    /// <summary>The store's directory.</summary>
    public required string StorePath { get; init; }

    /// <summary>The store's identity.</summary>
    public required Guid StoreId { get; init; }

    /// <summary>Nothing is damaged.</summary>
    public bool IsWhole => Damages.Count == 0 && Findings.All(finding => !finding.IsDamage);

    /// <summary>The oldest offset.</summary>
    public long FirstOffset { get; set; }

    /// <summary>Where the check ended: the end of the log, unless it is damaged there.</summary>
    public long EndOffset { get; set; }

    /// <summary>
    /// Not null: the store was not opened since the machine was started, and from here on the next opener will cut off what is
    /// not whole. Only what lies before it counts as damaged.
    /// </summary>
    public long? UnrecoveredFrom { get; set; }

    /// <summary>Everything before it is published, but for what is damaged.</summary>
    [JsonIgnore]
    public long SafeOffset { get; set; }

    /// <summary>The segments that were read.</summary>
    public int SegmentCount { get; set; }

    /// <summary>The whole messages.</summary>
    public long MessageCount { get; set; }

    /// <summary>The messages' own bytes.</summary>
    public long MessageBytes { get; set; }

    /// <summary>Frames that are no messages.</summary>
    public long PaddingCount { get; set; }

    /// <summary>Claims of living producers.</summary>
    public int OpenClaimCount { get; set; }

    /// <summary>Claims of dead producers: the next process that meets one turns it into padding.</summary>
    public int DeadClaimCount { get; set; }

    /// <summary>The time it took.</summary>
    public double Seconds { get; set; }

    /// <summary>The damaged places of the log, in order.</summary>
    public List<DamagedRange> Damages { get; } = [];

    /// <summary>The files beside the log.</summary>
    public List<FileFinding> Findings { get; } = [];
}

/// <summary>The JSON of `mfq verify`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(StoreVerification))]
internal sealed partial class VerifyJsonContext : JsonSerializerContext;

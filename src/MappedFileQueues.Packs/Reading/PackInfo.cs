namespace MappedFileQueues.Packs;

/// <summary>Sizes and counts of a pack at one moment.</summary>
public sealed class PackInfo
{
    /// <summary>The pack's directory.</summary>
    public string Path { get; init; } = "";

    /// <summary>The number of objects.</summary>
    public long Count { get; init; }

    /// <summary>The bytes that live objects take in the volumes, with keys and overhead.</summary>
    public long LiveLength { get; init; }

    /// <summary>The bytes of all volumes. A compaction may free what exceeds the live length.</summary>
    public long Length { get; init; }

    /// <summary>The number of volumes.</summary>
    public int VolumeCount { get; init; }

    /// <summary>The length of a volume in bytes.</summary>
    public long VolumeSize { get; init; }

    /// <summary>The memory that the index takes, in bytes.</summary>
    public long IndexBytes { get; init; }

    /// <summary>
    /// The number of puts and deletes so far, without failed ones and those of a torn tail. It jumps when the last volume is
    /// found to be missing or damaged at its end.
    /// </summary>
    public long Sequence { get; init; }

    /// <summary>When the pack was created.</summary>
    public DateTimeOffset Created { get; init; }
}

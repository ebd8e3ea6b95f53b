namespace MappedFileQueues.Packs;

/// <summary>A pack's size, at some moment.</summary>
public sealed class PackInfo
{
    /// <summary>Its directory.</summary>
    public string Path { get; init; } = "";

    /// <summary>How many objects there are.</summary>
    public long Count { get; init; }

    /// <summary>Bytes in the volumes that hold them, with keys and overhead.</summary>
    public long LiveLength { get; init; }

    /// <summary>Bytes in all volumes; what is above the live length a compaction may free.</summary>
    public long Length { get; init; }

    /// <summary>How many volumes there are.</summary>
    public int VolumeCount { get; init; }

    /// <summary>The length of a volume in bytes.</summary>
    public long VolumeSize { get; init; }

    /// <summary>What the index takes in memory, in bytes.</summary>
    public long IndexBytes { get; init; }

    /// <summary>
    /// How many puts and deletes there have been, failed ones and those of a torn tail left out. It leaps when the last volume is
    /// found missing or damaged at its end.
    /// </summary>
    public long Sequence { get; init; }

    /// <summary>When the pack was made.</summary>
    public DateTimeOffset Created { get; init; }
}

namespace MappedFileQueues.Packs;

/// <summary>What a compaction has done.</summary>
public sealed class PackCompaction
{
    /// <summary>How many volumes are gone.</summary>
    public int VolumesReplaced { get; init; }

    /// <summary>How many came in their place.</summary>
    public int VolumesMade { get; init; }

    /// <summary>By how much the volumes are shorter together, in bytes.</summary>
    public long BytesFreed { get; init; }

    /// <summary>Damaged ones, which stay as they are; <see cref="PackStore.Verify"/> says what is wrong with them.</summary>
    public int VolumesSkipped { get; init; }
}

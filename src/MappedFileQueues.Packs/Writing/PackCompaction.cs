namespace MappedFileQueues.Packs;

/// <summary>The result of a compaction.</summary>
public sealed class PackCompaction
{
    /// <summary>The number of volumes that were replaced and deleted.</summary>
    public int VolumesReplaced { get; init; }

    /// <summary>The number of new volumes.</summary>
    public int VolumesMade { get; init; }

    /// <summary>By how many bytes the volumes together became shorter.</summary>
    public long BytesFreed { get; init; }

    /// <summary>
    /// The number of damaged volumes, which stay as they are. <see cref="PackStore.Verify"/> reports their damage.
    /// </summary>
    public int VolumesSkipped { get; init; }
}

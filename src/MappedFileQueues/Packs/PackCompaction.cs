namespace MappedFileQueues.Packs;

/// <summary>What a compaction has done.</summary>
/// <param name="VolumesReplaced">How many volumes are gone.</param>
/// <param name="VolumesMade">How many came in their place.</param>
/// <param name="BytesFreed">By how much the volumes are shorter together.</param>
/// <param name="VolumesSkipped">Damaged ones, which stay as they are; <see cref="PackStore.Verify"/> says what is wrong with
/// them.</param>
public sealed record PackCompaction(int VolumesReplaced, int VolumesMade, long BytesFreed, int VolumesSkipped);

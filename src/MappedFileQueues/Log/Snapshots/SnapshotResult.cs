namespace MappedFileQueues.Log.Snapshots;

/// <summary>What a snapshot holds, and how it came there.</summary>
/// <param name="Path">Its directory.</param>
/// <param name="StoreId">Its identity.</param>
/// <param name="FirstOffset">The log start.</param>
/// <param name="Offset">The end of its log.</param>
/// <param name="LinkedCount">How many segments it shares with the source.</param>
/// <param name="CopiedCount">How many segments were copied, the last one included.</param>
/// <param name="ConsumerCount">How many consumers it has.</param>
internal sealed record SnapshotResult(
    string Path, Guid StoreId, long FirstOffset, long Offset, int LinkedCount, int CopiedCount, int ConsumerCount);

namespace MappedFileQueues.Log.Store;

/// <summary>What opening a store found.</summary>
/// <param name="IsAfterPowerLoss">It recovered after a power loss, a lost memory or poison; nothing else had the store
/// open.</param>
/// <param name="RepairedClaims">So many claims of dead producers became padding.</param>
internal readonly record struct OpeningRecovery(bool IsAfterPowerLoss, int RepairedClaims);

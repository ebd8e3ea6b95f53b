namespace MappedFileQueues.Log.Store;

/// <summary>What opening a store found.</summary>
/// <param name="IsAfterCut">It recovered after a power cut, a lost memory or poison; nothing else had the store open.</param>
/// <param name="RepairedClaims">So many claims of dead producers became padding.</param>
internal readonly record struct OpeningRecovery(bool IsAfterCut, int RepairedClaims);

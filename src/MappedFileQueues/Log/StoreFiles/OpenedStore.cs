using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>What `StoreOpening` passes to `LogStore`, which owns it from then on.</summary>
internal sealed record OpenedStore(
    OperatingSystemServices Os,
    HeldDirectory Directory,
    StoreMeta Meta,
    ControlPage Control,
    SlotTable Slots,
    CheckpointFile Checkpoints,
    MetaWatch MetaWatch,
    PlatformLock Attached,
    PlatformLock? MetaLock,
    OpeningRecovery Recovery);

/// <summary>What opening a store found.</summary>
/// <param name="IsAfterCut">It recovered after a power cut, a lost memory or poison; nothing else had the store open.</param>
/// <param name="RepairedClaims">So many claims of dead producers became padding.</param>
internal readonly record struct OpeningRecovery(bool IsAfterCut, int RepairedClaims);

/// <summary>The store that an opener requests.</summary>
/// <param name="Path">The store's directory.</param>
/// <param name="Kind">Structs or messages.</param>
/// <param name="StructSize">Size of the struct in bytes; 0 for messages.</param>
/// <param name="LayoutFingerprint">Fingerprint of the struct; 0 for messages.</param>
/// <param name="SegmentLength">Used when the store is created; afterwards the stored length counts.</param>
/// <param name="CreateIfMissing">Whether a missing store is created.</param>
/// <param name="AllowUnsafeFileSystem">Whether network and FUSE file systems are accepted.</param>
internal sealed record StoreRequest(
    string Path,
    StoreKind Kind,
    int StructSize,
    ulong LayoutFingerprint,
    long SegmentLength,
    bool CreateIfMissing,
    bool AllowUnsafeFileSystem);

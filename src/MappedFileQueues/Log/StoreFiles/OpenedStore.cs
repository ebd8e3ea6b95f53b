using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// What `StoreOpening` hands to `LogStore`, which owns it from then on.
/// </summary>
internal sealed record OpenedStore(
    OperatingSystemServices Os,
    HeldDirectory Directory,
    StoreMeta Meta,
    ControlPage Control,
    SlotTable Slots,
    CheckpointFile Checkpoints,
    MetaWatch MetaWatch,
    PlatformLock Attached);

/// <summary>What an opener wants the store to be.</summary>
/// <param name="Path">The store's directory.</param>
/// <param name="Kind">Structs or messages.</param>
/// <param name="StructSize">Bytes of the struct; 0 for messages.</param>
/// <param name="LayoutFingerprint">Of the struct; 0 for messages.</param>
/// <param name="SegmentLength">Used when the store is made; afterwards the stored one counts.</param>
/// <param name="CreateIfMissing">Whether a missing store is made.</param>
/// <param name="AllowUnsafeFileSystem">Whether network and FUSE file systems are accepted.</param>
internal sealed record StoreRequest(
    string Path,
    StoreKind Kind,
    int StructSize,
    ulong LayoutFingerprint,
    long SegmentLength,
    bool CreateIfMissing,
    bool AllowUnsafeFileSystem);

using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

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
    bool AllowUnsafeFileSystem)
{
    private const long Page = 4096;

    public static StoreRequest From(MappedFileQueueOptions options, StoreKind kind, int structSize, ulong fingerprint) => new(
        SystemPath.Full(options.StorePath), kind, structSize, fingerprint,
        (options.SegmentSize + Page - 1) / Page * Page, options.CreateIfMissing, options.DangerouslyAllowFileSystem);
}

using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format;

/// <summary>What a store holds.</summary>
internal enum StoreKind
{
    /// <summary>Structs of one size, one frame each.</summary>
    Struct = 1,

    /// <summary>Messages of any length.</summary>
    Messages = 2,
}

/// <summary>
/// The 4 KiB of `queue.meta`, written once, when the store is created. Little-endian:
/// <code>
///    0  8  magic "MFQSTORE"          40  4  struct size in bytes (0 for messages)
///    8  4  format version (2)        44  4  zero
///   12  4  kind (1 struct, 2 messages) 48  8  layout fingerprint (0: not known, or messages)
///   16  8  compatible features       56 16  store id
///   24  8  incompatible features     72  8  creation time, Unix milliseconds
///   32  8  segment length in bytes   80 16  log id, with feature bit 0; else zeros
///                                    96 ..  zeros
/// 4092  4  CRC-32C of all before
/// incompatible features: bit 0 the log has an id of its own; bit 1 frames may have header blocks, and groups and
/// producers with an id may be there: set in every new store; any other bit: refuse
/// </code>
/// </summary>
internal sealed record StoreMeta(
    StoreKind Kind,
    long SegmentLength,
    int StructSize,
    ulong LayoutFingerprint,
    Guid StoreId,
    DateTimeOffset Created)
{
    /// <summary>Length of the file in bytes.</summary>
    public const int Length = 4096;

    /// <summary>The version that this code writes and reads.</summary>
    public const uint FormatVersion = 2;

    /// <summary>Segments are at least one page.</summary>
    public const long SegmentLengthMin = 4096;

    /// <summary>A limit far above any use, so that offsets and lengths never overflow: 1 TiB.</summary>
    public const long SegmentLengthMax = 1L << 40;

    private const int VersionAt = 8;
    private const int KindAt = 12;
    private const int IncompatibleAt = 24;
    private const int SegmentLengthAt = 32;
    private const int StructSizeAt = 40;
    private const int FingerprintAt = 48;
    private const int StoreIdAt = 56;
    private const int CreatedAt = 72;
    private const int LogIdAt = 80;
    private const int ChecksumAt = Length - 4;

    /// <summary>
    /// The frames' checksums cover the log id, not the store id. A reader that ignored this would see only damage.
    /// </summary>
    private const ulong HasLogId = 1;

    /// <summary>An older version would take frames with a header block for lost memory, and cut them off.</summary>
    private const ulong MayHaveHeaders = 2;

    private static ReadOnlySpan<byte> Magic => "MFQSTORE"u8;

    /// <summary>
    /// The id that the frames' checksums cover. A store that began as a snapshot shares the segments of the store that it was
    /// taken from, so it keeps that store's log id under a store id of its own. In every other store the two are the same.
    /// </summary>
    public Guid LogId { get; init; } = StoreId;

    /// <summary>The checksum of the log's frames.</summary>
    public FrameChecksum Checksum => new(LogId);

    /// <summary>
    /// Whether structs of a size and a layout are those of the store. One of imported structs may know their size alone.
    /// </summary>
    public bool Holds(int structSize, ulong fingerprint) =>
        StructSize == structSize && (LayoutFingerprint == 0 || LayoutFingerprint == fingerprint);

    /// <summary>The start of the segment that an offset is in.</summary>
    public long StartOf(long offset) => offset - (offset % SegmentLength);

    public byte[] ToBytes()
    {
        byte[] bytes = new byte[Length];
        Magic.CopyTo(bytes);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(VersionAt), FormatVersion);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(KindAt), (int)Kind);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(SegmentLengthAt), SegmentLength);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(StructSizeAt), StructSize);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(FingerprintAt), LayoutFingerprint);
        StoreId.TryWriteBytes(bytes.AsSpan(StoreIdAt));
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(CreatedAt), Created.ToUnixTimeMilliseconds());
        bool hasLogId = LogId != StoreId;
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(IncompatibleAt), MayHaveHeaders | (hasLogId ? HasLogId : 0));
        if (hasLogId)
            LogId.TryWriteBytes(bytes.AsSpan(LogIdAt));

        Crc32C.Seal(bytes);
        return bytes;
    }

    /// <summary>Parses the page. Throws <see cref="QueueFormatException"/> when it is damaged or of another version.</summary>
    public static StoreMeta Parse(ReadOnlySpan<byte> bytes, string path)
    {
        if (bytes.Length != Length || !bytes[..Magic.Length].SequenceEqual(Magic))
            throw Damaged("This is not the meta page of a store", path, $"length={bytes.Length}, expected={Length}");
        uint version = BinaryPrimitives.ReadUInt32LittleEndian(bytes[VersionAt..]);
        uint stored = BinaryPrimitives.ReadUInt32LittleEndian(bytes[ChecksumAt..]);
        uint computed = Crc32C.Compute(bytes[..ChecksumAt]);
        if (stored != computed)
            throw Damaged("The meta page is damaged", path, $"checksum={stored:x8}, expected={computed:x8}");
        if (version != FormatVersion)
            throw new QueueFormatException($"Unknown format version: file={path}, version={version}, known={FormatVersion}. "
                + "Open it with the version of MappedFileQueues that made it.");
        ulong features = BinaryPrimitives.ReadUInt64LittleEndian(bytes[IncompatibleAt..]);
        if ((features & ~(HasLogId | MayHaveHeaders)) is not 0 and var unknown)
            throw new QueueFormatException($"The store uses features that this version does not know: file={path}, "
                + $"features=0x{unknown:x}. Open it with a newer version of MappedFileQueues.");

        var meta = new StoreMeta(
            (StoreKind)BinaryPrimitives.ReadInt32LittleEndian(bytes[KindAt..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[SegmentLengthAt..]),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[StructSizeAt..]),
            BinaryPrimitives.ReadUInt64LittleEndian(bytes[FingerprintAt..]),
            new Guid(bytes.Slice(StoreIdAt, 16)),
            DateTimeOffset.FromUnixTimeMilliseconds(Math.Clamp(
                BinaryPrimitives.ReadInt64LittleEndian(bytes[CreatedAt..]), 0, 253_402_300_799_999)));
        if ((features & HasLogId) != 0)
            meta = meta with { LogId = new Guid(bytes.Slice(LogIdAt, 16)) };
        if (meta.Kind is not (StoreKind.Struct or StoreKind.Messages)
            || meta.SegmentLength is < SegmentLengthMin or > SegmentLengthMax || meta.SegmentLength % SegmentLengthMin != 0
            || meta.StructSize < 0)
            throw Damaged("The meta page holds impossible values", path,
                $"kind={(int)meta.Kind}, segmentLength={meta.SegmentLength}, structSize={meta.StructSize}");
        return meta;
    }

    private static QueueFormatException Damaged(string what, string path, string values) =>
        new($"{what}: file={path}, {values}. Restore the file from a backup; without it the store's geometry is unknown.");
}

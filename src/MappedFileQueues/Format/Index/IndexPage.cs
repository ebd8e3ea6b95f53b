using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format.Index;

/// <summary>
/// The first page of `offset/index`. A ring of entries follows it, one a step of the log: the first frame that begins in the
/// step.
/// <code>
///  0 8 "MFQINDEX"   8 4 version (1)   12 4 log2 of the step in bytes   16 16 store id   32 4 series   36 4 zero
/// 40 8 origin: where number 0 is      48 4 log2 of the number of entries                52 8 zero
/// 60 4 CRC-32C of bytes 0 to 59
/// 64 32 the place up to which messages are counted, in the form of an entry; the rest of the page is zero
/// 4096 + 32 * slot: the entries; slot = (offset >> step) modulo the number of entries
/// </code>
/// </summary>
/// <param name="StoreId">The store.</param>
/// <param name="Series">Random. Entries of another series count from another origin, and are not used.</param>
/// <param name="Origin">The offset of the frame before which no message is counted.</param>
/// <param name="StepBits">Log2 of the step in bytes.</param>
/// <param name="CountBits">Log2 of the number of entries.</param>
internal sealed record IndexPage(
    Guid StoreId, uint Series, long Origin, int StepBits = IndexPage.StepBitsFirst, int CountBits = IndexPage.CountBitsUsual)
{
    /// <summary>Length of the page in bytes.</summary>
    public const int Length = 4096;

    /// <summary>Length of what the page's checksum covers, and of the checksum.</summary>
    public const int RecordLength = 64;

    /// <summary>Where the place is up to which messages are counted.</summary>
    public const int CountedAt = 64;

    /// <summary>The step of a new index: 1 MiB.</summary>
    public const int StepBitsFirst = 20;

    /// <summary>2^18 entries: 256 GiB of log at the first step, a file of 8 MiB.</summary>
    public const int CountBitsUsual = 18;

    private const uint Version = 1;
    private const int StepBitsMin = 9;
    private const int StepBitsMax = 50;
    private const int CountBitsMax = 24;

    private static ReadOnlySpan<byte> Magic => "MFQINDEX"u8;

    /// <summary>The number of the step that an offset is in.</summary>
    public long StepOf(long offset) => offset >> StepBits;

    /// <summary>The offset after the step that an offset is in.</summary>
    public long EdgeAfter(long offset) => (StepOf(offset) + 1) << StepBits;

    /// <summary>Where the entry of a step is in the file.</summary>
    public long PositionOf(long step) => Length + ((step & ((1L << CountBits) - 1)) * IndexEntry.Length);

    public byte[] ToBytes()
    {
        byte[] bytes = new byte[Length];
        Magic.CopyTo(bytes);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(8), Version);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(12), StepBits);
        StoreId.TryWriteBytes(bytes.AsSpan(16));
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(32), Series);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(40), Origin);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(48), CountBits);
        Crc32C.Seal(bytes.AsSpan(0, RecordLength));
        return bytes;
    }

    /// <summary>The page; null when it is damaged, of a later version, or of another store.</summary>
    public static IndexPage? Parse(ReadOnlySpan<byte> bytes, Guid storeId)
    {
        if (bytes.Length < RecordLength
            || !bytes.StartsWith(Magic)
            || !Crc32C.IsSealed(bytes[..RecordLength])
            || BinaryPrimitives.ReadUInt32LittleEndian(bytes[8..]) != Version
            || new Guid(bytes.Slice(16, 16)) != storeId)
            return null;
        var page = new IndexPage(
            storeId,
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[32..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[40..]),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[12..]),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[48..]));
        return page.Origin is < 0 or > LogLimits.OffsetMax || page.Origin % FrameHeader.Size != 0
            || page.StepBits is < StepBitsMin or > StepBitsMax || page.CountBits is < 1 or > CountBitsMax
            ? null
            : page;
    }
}

using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format;

/// <summary>
/// The page of a producer with an id, `offset/producers/ID.producer`; little-endian:
/// <code>
///   0  8  magic "MFQPROD1"
///   8  8  producer id: random, made with the file, so that messages copied from elsewhere never count
///  16 16  store id
///  60  4  CRC-32C of 0-59
/// 128  8  sequence S     every message of this producer before O has a sequence of S at most
/// 136  8  offset O       not above the durable offset, except where everything before it was removed
/// 144  8  copy of S, stored after it and before O; the lower one counts; 0: not known
/// 256  8  C, when the producer is gone: it has no message at or after this offset; 0: it may append
/// </code>
/// The truth is in the log: each message has its producer and its sequence in its header block. S and O are a hint that bounds
/// the walk over them, and all that is left of messages that were removed.
/// </summary>
internal static class ProducerLayout
{
    public const int Length = 4096;
    public const int SequenceAt = 128;
    public const int OffsetAt = 136;
    public const int SequenceCopyAt = 144;
    public const int ClosedAt = 256;

    private const int IdAt = 8;
    private const int StoreIdAt = 16;
    private const int SealedLength = 64;

    private static ReadOnlySpan<byte> Magic => "MFQPROD1"u8;

    /// <summary>A whole page.</summary>
    public static byte[] Make(ulong id, Guid storeId, ulong sequence, long offset)
    {
        byte[] page = new byte[Length];
        Magic.CopyTo(page);
        BinaryPrimitives.WriteUInt64LittleEndian(page.AsSpan(IdAt), id);
        storeId.TryWriteBytes(page.AsSpan(StoreIdAt));
        Crc32C.Seal(page.AsSpan(0, SealedLength));
        BinaryPrimitives.WriteUInt64LittleEndian(page.AsSpan(SequenceAt), sequence);
        BinaryPrimitives.WriteUInt64LittleEndian(page.AsSpan(SequenceCopyAt), sequence);
        BinaryPrimitives.WriteInt64LittleEndian(page.AsSpan(OffsetAt), offset);
        return page;
    }

    /// <summary>The id of the producer; false when this is no page of a producer of the store.</summary>
    public static bool TryReadId(ReadOnlySpan<byte> page, Guid storeId, out ulong id)
    {
        id = 0;
        if (page.Length < SealedLength || !page.StartsWith(Magic) || !Crc32C.IsSealed(page[..SealedLength])
            || new Guid(page.Slice(StoreIdAt, 16)) != storeId)
            return false;
        id = BinaryPrimitives.ReadUInt64LittleEndian(page[IdAt..]);
        return id != 0;
    }
}

using System.Buffers.Binary;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>
/// The binary form of an export, little-endian:
/// <code>
/// once         8 magic "MFQEXPT1"   16 store id   4 struct size   4 zero   8 layout   8 segment size   4 CRC-32C of all before
/// a message    4 length   8 offset in the store that it was made of   the bytes   4 CRC-32C of all of it before
///              bit 31 of the length: the bytes begin with a header block (docs/FORMAT.md), which the length covers
/// the end      4 0xFFFFFFFF   8 number of messages   4 CRC-32C of both
/// </code>
/// </summary>
internal static class BinaryForm
{
    public const int HeaderLength = 52;
    public const int PrefixLength = 12;
    public const int ChecksumLength = 4;
    private const uint EndMark = uint.MaxValue;
    private const uint HasBlock = 1u << 31;

    public static ReadOnlySpan<byte> Magic => "MFQEXPT1"u8;

    public static void WriteHeader(Stream output, StoreHeader header)
    {
        Span<byte> bytes = stackalloc byte[HeaderLength];
        bytes.Clear();
        Magic.CopyTo(bytes);
        header.StoreId.TryWriteBytes(bytes[8..]);
        BinaryPrimitives.WriteInt32LittleEndian(bytes[24..], header.StructSize);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes[32..], header.Layout);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[40..], header.SegmentSize);
        Crc32C.Seal(bytes);
        output.Write(bytes);
    }

    public static void WriteMessage(Stream output, ReadOnlySpan<byte> block, ReadOnlySpan<byte> message, long offset)
    {
        Span<byte> prefix = stackalloc byte[PrefixLength];
        uint length = (uint)(block.Length + message.Length);
        BinaryPrimitives.WriteUInt32LittleEndian(prefix, length | (block.IsEmpty ? 0 : HasBlock));
        BinaryPrimitives.WriteInt64LittleEndian(prefix[4..], offset);
        output.Write(prefix);
        output.Write(block);
        output.Write(message);
        Span<byte> checksum = stackalloc byte[ChecksumLength];
        BinaryPrimitives.WriteUInt32LittleEndian(checksum, Append(ChecksumOf(prefix, block), message));
        output.Write(checksum);
    }

    public static void WriteEnd(Stream output, long count)
    {
        Span<byte> bytes = stackalloc byte[PrefixLength + ChecksumLength];
        BinaryPrimitives.WriteUInt32LittleEndian(bytes, EndMark);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[4..], count);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes[PrefixLength..], ChecksumOf(bytes[..PrefixLength], []));
        output.Write(bytes);
    }

    /// <summary>Reads the header; the magic is part of the bytes.</summary>
    public static StoreHeader ReadHeader(ReadOnlySpan<byte> bytes)
    {
        if (!Crc32C.IsSealed(bytes))
            throw new ToolException("The head of the export is damaged. Export the store again.");
        return new StoreHeader(
            StoreHeader.Version,
            new Guid(bytes.Slice(8, 16)),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[24..]),
            BinaryPrimitives.ReadUInt64LittleEndian(bytes[32..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[40..]));
    }

    /// <summary>
    /// The length of the bytes after a prefix; false for the end, whose count is given instead, and for less than a prefix.
    /// </summary>
    public static bool TryReadPrefix(ReadOnlySpan<byte> prefix, out int length, out bool hasBlock, out long count)
    {
        (length, hasBlock, count) = (0, false, 0);
        if (prefix.Length < PrefixLength)
            return false;
        uint word = BinaryPrimitives.ReadUInt32LittleEndian(prefix);
        count = BinaryPrimitives.ReadInt64LittleEndian(prefix[4..]);
        if (word == EndMark)
            return false;
        hasBlock = (word & HasBlock) != 0;
        word &= ~HasBlock;
        if (word > FrameHeader.PayloadLengthMax)
            throw new ToolException($"The export is damaged: length={word}. Export the store again.");
        length = (int)word;
        return true;
    }

    public static uint ChecksumOf(ReadOnlySpan<byte> prefix, ReadOnlySpan<byte> bytes) =>
        Append(Append(uint.MaxValue, prefix[..PrefixLength]), bytes);

    private static uint Append(uint checksum, ReadOnlySpan<byte> bytes) =>
        Crc32C.Append(checksum, ref MemoryMarshal.GetReference(bytes), bytes.Length);
}

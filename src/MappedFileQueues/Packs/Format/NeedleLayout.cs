using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Packs.Format;

/// <summary>What a needle says about its key.</summary>
internal enum NeedleKind
{
    Value = 1,
    Tombstone = 2,
}

/// <summary>
/// An object as it lies in a volume, at a multiple of 8 (docs/PACKS.md section 2):
/// <code>
///  0 4 magic        4 4 kind            8 8 sequence
/// 16 4 key length  20 4 data length    24 4 synced (units of 8)   28 4 header checksum
/// 32 .. key, data, zeros up to a multiple of 8, then 4 body checksum, 4 end magic
/// </code>
/// The CRCs of key and data are parts of the two checksums, and not the bytes themselves, so that a writer computes them
/// before it knows the place; the place is part of the header checksum, so that a needle is valid there only.
/// </summary>
/// <param name="Kind">Value or tombstone.</param>
/// <param name="Sequence">Counts the puts and deletes of the pack.</param>
/// <param name="KeyLength">In bytes.</param>
/// <param name="DataLength">In bytes; 0 for a tombstone.</param>
/// <param name="Synced">Up to this position the volume was on disk when the needle was written.</param>
internal readonly record struct NeedleLayout(NeedleKind Kind, ulong Sequence, int KeyLength, int DataLength, long Synced)
{
    public const int HeaderLength = 32;
    public const int FooterLength = 8;
    public const int Unit = 8;
    public const int KeyLengthMax = 64 * 1024;
    public const int DataLengthMax = 256 * 1024 * 1024;

    /// <summary>The longest needle there is; fits an int.</summary>
    public const int LengthMax = HeaderLength + KeyLengthMax + DataLengthMax + FooterLength;

    /// <summary>The shortest: no key, no data.</summary>
    public const int LengthMin = HeaderLength + FooterLength;

    /// <summary>The highest position that a needle can say was synced.</summary>
    public const long SyncedMax = (long)uint.MaxValue * Unit;

    public const uint Magic = 0x314C644E;
    public const uint EndMagic = 0x4E644C31;

    private const int CheckedLength = 28;

    /// <summary>The whole needle in bytes, a multiple of 8.</summary>
    public int Length => HeaderLength + PaddedBody + FooterLength;

    /// <summary>Where the data begins, from the needle's start.</summary>
    public int DataAt => HeaderLength + KeyLength;

    /// <summary>Zeros between data and footer.</summary>
    public int PadLength => PaddedBody - KeyLength - DataLength;

    private int PaddedBody => (KeyLength + DataLength + Unit - 1) & -Unit;

    /// <summary>The CRC of a key or of data, as it goes into the checksums.</summary>
    public static uint ContentCrc(ReadOnlySpan<byte> content) =>
        Crc32C.Append(uint.MaxValue, ref System.Runtime.InteropServices.MemoryMarshal.GetReference(content), content.Length);

    /// <summary>What the header checksums of one volume begin with.</summary>
    public static uint VolumeSeed(Guid packId, uint number, uint generation)
    {
        Span<byte> id = stackalloc byte[16];
        packId.TryWriteBytes(id);
        uint crc = Crc32C.Append(uint.MaxValue, ref id[0], id.Length);
        return (uint)Crc32C.Step(crc, number | ((ulong)generation << 32));
    }

    /// <summary>
    /// Reads the lengths of a header whose checksum nobody has looked at yet: false unless they are possible, so that they can be
    /// used to find the rest.
    /// </summary>
    public static bool TryRead(ReadOnlySpan<byte> header, out NeedleLayout needle)
    {
        needle = default;
        if (header.Length < HeaderLength || BinaryPrimitives.ReadUInt32LittleEndian(header) != Magic)
            return false;
        uint kind = BinaryPrimitives.ReadUInt32LittleEndian(header[4..]);
        uint keyLength = BinaryPrimitives.ReadUInt32LittleEndian(header[16..]);
        uint dataLength = BinaryPrimitives.ReadUInt32LittleEndian(header[20..]);
        bool isPossible = keyLength <= KeyLengthMax && dataLength <= DataLengthMax
            && (kind == (uint)NeedleKind.Value || (kind == (uint)NeedleKind.Tombstone && dataLength == 0));
        if (!isPossible)
            return false;
        needle = new NeedleLayout(
            (NeedleKind)kind,
            BinaryPrimitives.ReadUInt64LittleEndian(header[8..]),
            (int)keyLength,
            (int)dataLength,
            (long)BinaryPrimitives.ReadUInt32LittleEndian(header[24..]) * Unit);
        return true;
    }

    /// <summary>The fields as they stand there, possible or not; lengths that are no int are -1.</summary>
    public static NeedleLayout ReadUnchecked(ReadOnlySpan<byte> header) => new(
        (NeedleKind)BinaryPrimitives.ReadUInt32LittleEndian(header[4..]),
        BinaryPrimitives.ReadUInt64LittleEndian(header[8..]),
        Math.Max(-1, BinaryPrimitives.ReadInt32LittleEndian(header[16..])),
        Math.Max(-1, BinaryPrimitives.ReadInt32LittleEndian(header[20..])),
        (long)BinaryPrimitives.ReadUInt32LittleEndian(header[24..]) * Unit);

    /// <summary>The header checksum that stands in the bytes.</summary>
    public static uint StoredHeaderChecksum(ReadOnlySpan<byte> header) =>
        BinaryPrimitives.ReadUInt32LittleEndian(header[CheckedLength..]);

    /// <summary>Sets it to any value.</summary>
    public static void WriteHeaderChecksum(Span<byte> header, uint checksum) =>
        BinaryPrimitives.WriteUInt32LittleEndian(header[CheckedLength..], checksum);

    /// <summary>What the header checksum has to be, over the 28 bytes in place.</summary>
    public static uint HeaderChecksum(uint volumeSeed, long position, ReadOnlySpan<byte> header, uint keyCrc)
    {
        ulong crc = Crc32C.Step(volumeSeed, (ulong)position);
        crc = Crc32C.Step(crc, BinaryPrimitives.ReadUInt64LittleEndian(header));
        crc = Crc32C.Step(crc, BinaryPrimitives.ReadUInt64LittleEndian(header[8..]));
        crc = Crc32C.Step(crc, BinaryPrimitives.ReadUInt64LittleEndian(header[16..]));
        return (uint)Crc32C.Step(crc, BinaryPrimitives.ReadUInt32LittleEndian(header[24..]) | ((ulong)keyCrc << 32));
    }

    /// <summary>Writes the header for its place and returns its checksum, from which the footer's follows.</summary>
    public uint WriteHeader(Span<byte> header, uint volumeSeed, long position, uint keyCrc)
    {
        BinaryPrimitives.WriteUInt32LittleEndian(header, Magic);
        BinaryPrimitives.WriteUInt32LittleEndian(header[4..], (uint)Kind);
        BinaryPrimitives.WriteUInt64LittleEndian(header[8..], Sequence);
        BinaryPrimitives.WriteInt32LittleEndian(header[16..], KeyLength);
        BinaryPrimitives.WriteInt32LittleEndian(header[20..], DataLength);
        BinaryPrimitives.WriteUInt32LittleEndian(header[24..], (uint)(Synced / Unit));
        uint checksum = HeaderChecksum(volumeSeed, position, header, keyCrc);
        WriteHeaderChecksum(header, checksum);
        return checksum;
    }

    /// <summary>Writes the footer.</summary>
    public static void WriteFooter(Span<byte> footer, uint headerChecksum, uint dataCrc)
    {
        BinaryPrimitives.WriteUInt32LittleEndian(footer, (uint)Crc32C.Step(headerChecksum, dataCrc));
        BinaryPrimitives.WriteUInt32LittleEndian(footer[4..], EndMagic);
    }

    /// <summary>Whether padding and footer are those of this needle.</summary>
    public bool IsEndValid(ReadOnlySpan<byte> padAndFooter, uint headerChecksum, uint dataCrc)
    {
        ReadOnlySpan<byte> footer = padAndFooter[PadLength..];
        return !padAndFooter[..PadLength].ContainsAnyExcept((byte)0)
            && BinaryPrimitives.ReadUInt32LittleEndian(footer) == (uint)Crc32C.Step(headerChecksum, dataCrc)
            && BinaryPrimitives.ReadUInt32LittleEndian(footer[4..]) == EndMagic;
    }
}

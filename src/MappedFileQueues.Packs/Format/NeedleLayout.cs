using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Packs.Format;

/// <summary>What a needle says about its key: it has a value, or it is deleted.</summary>
internal enum NeedleKind
{
    Value = 1,
    Tombstone = 2,
}

/// <summary>
/// An object as stored in a volume, at a multiple of 8 (docs/PACKS.md section 2):
/// <code>
///  0 4 magic        4 4 kind            8 8 sequence
/// 16 4 key length  20 4 data length    24 4 synced (units of 8)   28 4 header checksum
/// 32 .. key, data, zeros up to a multiple of 8, then 4 body checksum, 4 end magic
/// </code>
/// The two checksums cover the CRCs of key and data instead of their bytes, so a writer computes these CRCs before it knows the
/// place. The header checksum covers the place, so a needle is valid only there.
/// </summary>
/// <param name="Kind">Value or tombstone.</param>
/// <param name="Sequence">The number of this put or delete in the pack.</param>
/// <param name="KeyLength">In bytes.</param>
/// <param name="DataLength">In bytes; 0 for a tombstone.</param>
/// <param name="Synced">The volume was on disk up to this position when the needle was written.</param>
internal readonly record struct NeedleLayout(NeedleKind Kind, ulong Sequence, int KeyLength, int DataLength, long Synced)
{
    public const int HeaderLength = 32;
    public const int FooterLength = 8;
    public const int Unit = 8;
    public const int KeyLengthMax = 64 * 1024;
    public const int DataLengthMax = 256 * 1024 * 1024;

    /// <summary>The length of the longest possible needle; fits an int.</summary>
    public const int LengthMax = HeaderLength + KeyLengthMax + DataLengthMax + FooterLength;

    /// <summary>The length of the shortest possible needle: no key, no data.</summary>
    public const int LengthMin = HeaderLength + FooterLength;

    /// <summary>The highest position that the synced field can hold.</summary>
    public const long SyncedMax = (long)uint.MaxValue * Unit;

    /// <summary>
    /// No needle has a higher sequence: what names one is forged, and the next put's number must not begin at 0 again.
    /// </summary>
    public const ulong SequenceMax = 1UL << 62;

    public const uint Magic = 0x314C644E;
    public const uint EndMagic = 0x4E644C31;

    private const int CheckedLength = 28;

    /// <summary>The length of the whole needle in bytes, a multiple of 8.</summary>
    public int Length => HeaderLength + PaddedBody + FooterLength;

    /// <summary>Where the data begins, relative to the needle's start.</summary>
    public int DataAt => HeaderLength + KeyLength;

    /// <summary>The number of zeros between data and footer.</summary>
    public int PadLength => PaddedBody - KeyLength - DataLength;

    private int PaddedBody => (KeyLength + DataLength + Unit - 1) & -Unit;

    /// <summary>The CRC of a key or of data, as used in the checksums.</summary>
    public static uint ContentCrc(ReadOnlySpan<byte> content) =>
        Crc32C.Append(uint.MaxValue, ref System.Runtime.InteropServices.MemoryMarshal.GetReference(content), content.Length);

    /// <summary>The initial value of all header checksums of a volume.</summary>
    public static uint VolumeSeed(Guid packId, uint number, uint generation)
    {
        Span<byte> id = stackalloc byte[16];
        packId.TryWriteBytes(id);
        uint crc = Crc32C.Append(uint.MaxValue, ref id[0], id.Length);
        return (uint)Crc32C.Step(crc, number | ((ulong)generation << 32));
    }

    /// <summary>
    /// Reads the fields of a header whose checksum is not verified yet. False unless kind and lengths are possible, so the
    /// lengths can be used to find the rest.
    /// </summary>
    public static bool TryRead(ReadOnlySpan<byte> header, out NeedleLayout needle)
    {
        needle = default;
        if (header.Length < HeaderLength || BinaryPrimitives.ReadUInt32LittleEndian(header) != Magic)
            return false;
        uint kind = BinaryPrimitives.ReadUInt32LittleEndian(header[4..]);
        uint keyLength = BinaryPrimitives.ReadUInt32LittleEndian(header[16..]);
        uint dataLength = BinaryPrimitives.ReadUInt32LittleEndian(header[20..]);
        ulong sequence = BinaryPrimitives.ReadUInt64LittleEndian(header[8..]);
        bool isPossible = sequence <= SequenceMax && keyLength <= KeyLengthMax && dataLength <= DataLengthMax
            && (kind == (uint)NeedleKind.Value || (kind == (uint)NeedleKind.Tombstone && dataLength == 0));
        if (!isPossible)
            return false;
        needle = new NeedleLayout(
            (NeedleKind)kind,
            sequence,
            (int)keyLength,
            (int)dataLength,
            (long)BinaryPrimitives.ReadUInt32LittleEndian(header[24..]) * Unit);
        return true;
    }

    /// <summary>The fields as stored, possible or not; lengths that exceed an int become -1.</summary>
    public static NeedleLayout ReadUnchecked(ReadOnlySpan<byte> header) => new(
        (NeedleKind)BinaryPrimitives.ReadUInt32LittleEndian(header[4..]),
        BinaryPrimitives.ReadUInt64LittleEndian(header[8..]),
        Math.Max(-1, BinaryPrimitives.ReadInt32LittleEndian(header[16..])),
        Math.Max(-1, BinaryPrimitives.ReadInt32LittleEndian(header[20..])),
        (long)BinaryPrimitives.ReadUInt32LittleEndian(header[24..]) * Unit);

    /// <summary>The header checksum as stored.</summary>
    public static uint StoredHeaderChecksum(ReadOnlySpan<byte> header) =>
        BinaryPrimitives.ReadUInt32LittleEndian(header[CheckedLength..]);

    /// <summary>Stores any value as the header checksum.</summary>
    public static void WriteHeaderChecksum(Span<byte> header, uint checksum) =>
        BinaryPrimitives.WriteUInt32LittleEndian(header[CheckedLength..], checksum);

    /// <summary>Computes the header checksum over the first 28 bytes of the header, for this position.</summary>
    public static uint HeaderChecksum(uint volumeSeed, long position, ReadOnlySpan<byte> header, uint keyCrc)
    {
        ulong crc = Crc32C.Step(volumeSeed, (ulong)position);
        crc = Crc32C.Step(crc, BinaryPrimitives.ReadUInt64LittleEndian(header));
        crc = Crc32C.Step(crc, BinaryPrimitives.ReadUInt64LittleEndian(header[8..]));
        crc = Crc32C.Step(crc, BinaryPrimitives.ReadUInt64LittleEndian(header[16..]));
        return (uint)Crc32C.Step(crc, BinaryPrimitives.ReadUInt32LittleEndian(header[24..]) | ((ulong)keyCrc << 32));
    }

    /// <summary>Writes the header for this position. Returns its checksum, which the footer's checksum starts from.</summary>
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

    /// <summary>Whether padding and footer belong to this needle.</summary>
    public bool IsEndValid(ReadOnlySpan<byte> padAndFooter, uint headerChecksum, uint dataCrc)
    {
        ReadOnlySpan<byte> footer = padAndFooter[PadLength..];
        return !padAndFooter[..PadLength].ContainsAnyExcept((byte)0)
            && BinaryPrimitives.ReadUInt32LittleEndian(footer) == (uint)Crc32C.Step(headerChecksum, dataCrc)
            && BinaryPrimitives.ReadUInt32LittleEndian(footer[4..]) == EndMagic;
    }
}

using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Packs.Format;

/// <summary>The first 64 bytes of a volume (docs/PACKS.md section 2).</summary>
/// <param name="Name">Equal to the file's name.</param>
/// <param name="CleanAsOf">The volume holds no needle that was dead at this sequence; 0 if unknown.</param>
/// <param name="SequenceBefore">The sequence of the last needle before the volume; 0 if unknown.</param>
/// <param name="PreviousEnd">
/// Where the needles of the previous volume end, which was filled by puts; a crash tore off what follows. 0 if they end where the
/// file ends.
/// </param>
/// <param name="CopyEnd">Where the needles of a compaction's copy end, which is complete; 0 if unknown.</param>
internal sealed record VolumeHeader(
    VolumeName Name, ulong CleanAsOf, ulong SequenceBefore, long PreviousEnd = 0, long CopyEnd = 0)
{
    /// <summary>In bytes; also the position of the first needle.</summary>
    public const int Length = 64;

    private static ReadOnlySpan<byte> Magic => "MFQPVOL1"u8;

    public byte[] ToBytes(Guid packId)
    {
        byte[] bytes = new byte[Length];
        Magic.CopyTo(bytes);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(8), Name.First);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(12), Name.Last);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(16), Name.Generation);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(20), (uint)(PreviousEnd / NeedleLayout.Unit));
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(24), CleanAsOf);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(32), SequenceBefore);
        packId.TryWriteBytes(bytes.AsSpan(40));
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(56), (uint)(CopyEnd / NeedleLayout.Unit));
        Crc32C.Seal(bytes);
        return bytes;
    }

    /// <summary>
    /// Reads the header; null if it is damaged, of another pack, or of another volume than the file's name says.
    /// </summary>
    public static VolumeHeader? Parse(ReadOnlySpan<byte> bytes, Guid packId, VolumeName name)
    {
        if (bytes.Length < Length || !bytes[..Magic.Length].SequenceEqual(Magic) || new Guid(bytes.Slice(40, 16)) != packId
            || !Crc32C.IsSealed(bytes[..Length]))
            return null;
        var found = new VolumeName(
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[8..]),
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[12..]),
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[16..]));
        ulong cleanAsOf = BinaryPrimitives.ReadUInt64LittleEndian(bytes[24..]);
        ulong sequenceBefore = BinaryPrimitives.ReadUInt64LittleEndian(bytes[32..]);
        return found != name || Math.Max(cleanAsOf, sequenceBefore) > NeedleLayout.SequenceMax ? null : new VolumeHeader(
            name,
            cleanAsOf,
            sequenceBefore,
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[20..]) * (long)NeedleLayout.Unit,
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[56..]) * (long)NeedleLayout.Unit);
    }
}

using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Packs.Format;

/// <summary>The 64 bytes of `pack.meta`, written once when the pack is created (docs/PACKS.md section 2).</summary>
/// <param name="PackId">Random; part of every checksum, and the key of the hash.</param>
/// <param name="VolumeLength">A volume takes needles until it has this length.</param>
/// <param name="Created">When the pack was created.</param>
internal sealed record PackMeta(Guid PackId, long VolumeLength, DateTimeOffset Created)
{
    public const int Length = 64;
    public const uint FormatVersion = 1;
    public const long VolumeLengthMin = 4096;
    public const long VolumeLengthMax = 16L * 1024 * 1024 * 1024;

    private const int ChecksumAt = Length - 4;
    private const long UnixMillisecondsMax = 253_402_300_799_999;

    private static ReadOnlySpan<byte> Magic => "MFQPACK1"u8;

    public byte[] ToBytes()
    {
        byte[] bytes = new byte[Length];
        Magic.CopyTo(bytes);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(8), FormatVersion);
        PackId.TryWriteBytes(bytes.AsSpan(16));
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(32), VolumeLength);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(40), Created.ToUnixTimeMilliseconds());
        Crc32C.Seal(bytes);
        return bytes;
    }

    /// <summary>Reads the page. Throws <see cref="PackFormatException"/> if it is damaged or of another version.</summary>
    public static PackMeta Parse(ReadOnlySpan<byte> bytes, string path)
    {
        if (bytes.Length != Length || !bytes[..Magic.Length].SequenceEqual(Magic))
            throw Damaged("This is not the meta page of a pack", path, $"length={bytes.Length}, expected={Length}");
        uint stored = BinaryPrimitives.ReadUInt32LittleEndian(bytes[ChecksumAt..]);
        uint computed = Crc32C.Compute(bytes[..ChecksumAt]);
        if (stored != computed)
            throw Damaged("The meta page is damaged", path, $"checksum={stored:x8}, expected={computed:x8}");
        uint version = BinaryPrimitives.ReadUInt32LittleEndian(bytes[8..]);
        uint features = BinaryPrimitives.ReadUInt32LittleEndian(bytes[12..]);
        if (version != FormatVersion || features != 0)
        {
            throw new PackFormatException($"Unknown pack format: file={path}, version={version}, known={FormatVersion}, "
                + $"features=0x{features:x}. Open it with the version of MappedFileQueues that created it.");
        }

        var meta = new PackMeta(
            new Guid(bytes.Slice(16, 16)),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[32..]),
            DateTimeOffset.FromUnixTimeMilliseconds(
                Math.Clamp(BinaryPrimitives.ReadInt64LittleEndian(bytes[40..]), 0, UnixMillisecondsMax)));
        return meta.VolumeLength is >= VolumeLengthMin and <= VolumeLengthMax && meta.VolumeLength % NeedleLayout.Unit == 0
            ? meta
            : throw Damaged("The meta page holds impossible values", path, $"volumeLength={meta.VolumeLength}");
    }

    private static PackFormatException Damaged(string what, string path, string values) =>
        new($"{what}: file={path}, {values}. Restore the file from a backup; without it nothing in the pack can be verified.");
}

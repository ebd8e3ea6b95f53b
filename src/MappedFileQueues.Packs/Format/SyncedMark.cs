using System.Buffers.Binary;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Packs.Format;

/// <summary>
/// The content of the file `synced` (docs/PACKS.md section 2): up to which position the volume that takes puts was on disk, and
/// in which boot of the machine its writer began. The writer writes it after each sync and never syncs it: its content stays
/// true, however old it is. From it a recovery knows what no power loss can have taken, and whether there can have been a power
/// loss.
/// </summary>
/// <param name="Boot">The boot in which the writer began; empty if unknown.</param>
/// <param name="VolumeNumber">The volume's last number; 0 for none.</param>
/// <param name="Position">Everything before this position was on disk.</param>
internal sealed record SyncedMark(Guid Boot, uint VolumeNumber, long Position)
{
    public const int Length = 64;

    private static ReadOnlySpan<byte> Magic => "MFQPSYN1"u8;

    /// <summary>The current boot of the machine; empty if it cannot be determined.</summary>
    public static Guid CurrentBoot => CurrentPlatform.Services.Boot.Stored;

    /// <summary>
    /// Whether the machine has had power since the writer began, so everything that processes wrote is still there. False after a
    /// failed sync, which may have lost data in the same boot.
    /// </summary>
    public bool IsMemoryWhole(HeldDirectory directory) =>
        CurrentPlatform.Services.Boot.IsSameAs(Boot) && directory.Identify(PackNames.Poison) is null;

    /// <summary>Up to which position this volume was on disk, as far as the mark knows.</summary>
    public long SyncedOf(VolumeName volume) => volume.Generation == 0 && volume.Last == VolumeNumber ? Position : 0;

    /// <summary>Reads the mark. If it is missing, damaged or of another pack, the result holds nothing.</summary>
    public static SyncedMark Read(HeldDirectory directory, Guid packId)
    {
        var nothing = new SyncedMark(Guid.Empty, 0, 0);
        using PlatformFile? file = directory.Open(PackNames.Synced, FileOpening.Read);
        Span<byte> bytes = stackalloc byte[Length];
        bool isMark = file is not null && file.ReadAt(bytes, 0) == Length && bytes[..Magic.Length].SequenceEqual(Magic)
            && new Guid(bytes.Slice(8, 16)) == packId
            && Crc32C.IsSealed(bytes);
        uint number = BinaryPrimitives.ReadUInt32LittleEndian(bytes[48..]);
        return !isMark || number > VolumeName.NumberMax ? nothing : new SyncedMark(
            new Guid(bytes.Slice(24, 16)), number, BinaryPrimitives.ReadInt64LittleEndian(bytes[40..]));
    }

    /// <summary>Writes the mark. Ignores errors: without the mark a recovery only knows less.</summary>
    public void TryWrite(PlatformFile file, Guid packId)
    {
        Span<byte> bytes = stackalloc byte[Length];
        bytes.Clear();
        Magic.CopyTo(bytes);
        packId.TryWriteBytes(bytes[8..]);
        Boot.TryWriteBytes(bytes[24..]);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[40..], Position);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes[48..], VolumeNumber);
        Crc32C.Seal(bytes);
        try
        {
            file.WriteAt(bytes, 0);
        }
        catch (QueueDiskException)
        {
            // For example, the disk is full. The old mark stays true.
        }
    }
}

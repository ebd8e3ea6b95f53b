using System.Buffers.Binary;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Packs.Format;

/// <summary>
/// The file `synced` (docs/PACKS.md section 2): up to where the volume that takes puts was on disk, and in which boot of the
/// machine
/// its writer began. It is written after each sync and is not synced itself: what it says stays true, however old it is. It
/// tells a recovery what no power cut can have taken, and whether there can have been one.
/// </summary>
/// <param name="Boot">In this boot the writer began; empty when it is not known.</param>
/// <param name="VolumeNumber">The volume's last number; 0 for none.</param>
/// <param name="Position">Everything before it was on disk.</param>
internal sealed record SyncedMark(Guid Boot, uint VolumeNumber, long Position)
{
    public const int Length = 64;

    private const int ChecksumAt = Length - 4;

    private static ReadOnlySpan<byte> Magic => "MFQPSYN1"u8;

    /// <summary>What this boot of the machine is called; empty when it cannot be known.</summary>
    public static Guid CurrentBoot =>
        Guid.TryParse(CurrentPlatform.Services.BootId, out Guid known) ? known : Guid.Empty;

    /// <summary>
    /// The machine has not been without power since the writer began, so what processes wrote is there. A sync that failed may
    /// have taken it all the same.
    /// </summary>
    public bool IsMemoryWhole(HeldDirectory directory) =>
        Boot != Guid.Empty && Boot == CurrentBoot && directory.Identify(PackNames.Poison) is null;

    /// <summary>Up to where this volume was on disk, as far as the mark knows.</summary>
    public long SyncedOf(VolumeName volume) => volume.Generation == 0 && volume.Last == VolumeNumber ? Position : 0;

    /// <summary>Reads the mark; one that says nothing when it is missing, damaged or of another pack.</summary>
    public static SyncedMark Read(HeldDirectory directory, Guid packId)
    {
        var nothing = new SyncedMark(Guid.Empty, 0, 0);
        using PlatformFile? file = directory.Open(PackNames.Synced, FileOpening.Read);
        Span<byte> bytes = stackalloc byte[Length];
        bool isMark = file is not null && file.ReadAt(bytes, 0) == Length && bytes[..Magic.Length].SequenceEqual(Magic)
            && new Guid(bytes.Slice(8, 16)) == packId
            && BinaryPrimitives.ReadUInt32LittleEndian(bytes[ChecksumAt..]) == Crc32C.Compute(bytes[..ChecksumAt]);
        return !isMark ? nothing : new SyncedMark(
            new Guid(bytes.Slice(24, 16)),
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[48..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[40..]));
    }

    /// <summary>Writes the mark; an error is nobody's: without it a recovery knows less.</summary>
    public void TryWrite(PlatformFile file, Guid packId)
    {
        Span<byte> bytes = stackalloc byte[Length];
        bytes.Clear();
        Magic.CopyTo(bytes);
        packId.TryWriteBytes(bytes[8..]);
        Boot.TryWriteBytes(bytes[24..]);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[40..], Position);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes[48..], VolumeNumber);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes[ChecksumAt..], Crc32C.Compute(bytes[..ChecksumAt]));
        try
        {
            file.WriteAt(bytes, 0);
        }
        catch (QueueDiskException)
        {
            // A full disk, say. The old mark stays true.
        }
    }
}

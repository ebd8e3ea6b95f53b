using System.Buffers.Binary;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// `NAME.roll-room` is beside a file while a stream gives it room that reads as zeros. It says which file that is, and how
/// long it was before: after a crash the next opening, whatever its options, cuts off the zeros at the end of that file, and of
/// no other. It is set before the first zero, and deleted when the file is cut to its true length.
/// <para>A mark that a crash left counts only for the same file (inode and time of creation), so a restored or copied file keeps
/// the zeros that it ends with. An inode number is used again, so without a time of creation (ext4 with inodes of 128 bytes) it
/// proves nothing, and the zeros stay. Portable knows no inodes, and on Linux no time of creation: it trusts any mark. A power
/// loss that takes the mark leaves zeros in the file, which is no loss.</para>
/// </summary>
internal sealed class RoomMark(HeldDirectory directory, string name)
{
    private const ulong Magic = 0x314D_4F4F_5251_464D; // "MFQROOM1"
    private const int SealedLength = 36;
    private const int Length = 40;

    private readonly string _name = name + ".roll-room";

    private (FileOrigin Origin, long Start)? _written;

    /// <summary>Says that zeros from this position on may be room of this file. Writes nothing that is there already.</summary>
    public void Set(PlatformFile file, long start, bool isDurable)
    {
        if (PlantedFaults.Has(PlantedFault.RoomNotMarked))
            return;
        var origin = FileOrigin.Of(file);
        if (_written == (origin, start))
            return;
        _written = null;
        byte[] bytes = new byte[Length];
        BinaryPrimitives.WriteUInt64LittleEndian(bytes, Magic);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(8), origin.Inode);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(16), origin.Birth);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(24), start);
        Crc32C.Seal(bytes.AsSpan(0, SealedLength));
        using PlatformFile mark = directory.Open(_name, FileOpening.ReadWriteOrCreate)!;
        mark.WriteAt(bytes, 0);
        if (isDurable)
        {
            mark.Sync();
            directory.FlushEntries("");
        }

        _written = (origin, start);
    }

    /// <summary>The position from which zeros at the end of this file are room; null when there is no mark.</summary>
    public long? Find(PlatformFile file)
    {
        using PlatformFile? mark = directory.Open(_name, FileOpening.Read);
        byte[] bytes = new byte[Length];
        bool isMark = mark?.ReadAt(bytes, 0) == Length
            && BinaryPrimitives.ReadUInt64LittleEndian(bytes) == Magic
            && Crc32C.IsSealed(bytes.AsSpan(0, SealedLength))
            && AreOne(
                FileOrigin.Of(file),
                new FileOrigin(
                    BinaryPrimitives.ReadUInt64LittleEndian(bytes.AsSpan(8)),
                    BinaryPrimitives.ReadInt64LittleEndian(bytes.AsSpan(16))));
        return isMark ? BinaryPrimitives.ReadInt64LittleEndian(bytes.AsSpan(24)) : null;
    }

    /// <summary>There is no such room any more. A flush of the directory makes that durable.</summary>
    public void Clear()
    {
        _written = null;
        _ = directory.Delete(_name);
    }

    /// <summary>What only one side knows is not compared, except the birth of a file whose inode both know.</summary>
    private static bool AreOne(FileOrigin file, FileOrigin marked)
    {
        bool areBirthsKnown = file.Birth != 0 && marked.Birth != 0;
        bool areInodesKnown = file.Inode != 0 && marked.Inode != 0;
        return areInodesKnown ? areBirthsKnown && file == marked : !areBirthsKnown || file.Birth == marked.Birth;
    }
}

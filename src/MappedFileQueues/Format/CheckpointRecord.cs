using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format;

/// <summary>
/// One of the two slots of `offset/producer.checkpoint`. The slots are on two pages, so a torn write hits at most one:
/// <code>
///  0 8 offset    8 8 epoch   16 8 sequence   24 16 boot id   40 16 store id   56 4 zero   60 4 CRC-32C of all before
/// </code>
/// The valid slot with the higher sequence counts.
/// </summary>
/// <param name="Offset">Everything before it is on disk and whole.</param>
/// <param name="Epoch">Raised by each recovery that cut something off. A message's identity is (epoch, offset).</param>
/// <param name="Sequence">Counts the records; even ones are in slot 0.</param>
/// <param name="BootId">The boot in which the record was written.</param>
internal sealed record CheckpointRecord(long Offset, long Epoch, long Sequence, Guid BootId)
{
    /// <summary>Length of a slot's record in bytes.</summary>
    public const int Length = 64;

    /// <summary>Distance of the slots, and half of the file's length.</summary>
    public const int SlotDistance = 4096;

    /// <summary>Where the record with this sequence belongs.</summary>
    public long Position => (Sequence & 1) * SlotDistance;

    public byte[] ToBytes(Guid storeId)
    {
        byte[] bytes = new byte[Length];
        BinaryPrimitives.WriteInt64LittleEndian(bytes, Offset);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(8), Epoch);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(16), Sequence);
        BootId.TryWriteBytes(bytes.AsSpan(24));
        storeId.TryWriteBytes(bytes.AsSpan(40));
        Crc32C.Seal(bytes);
        return bytes;
    }

    /// <summary>The record, or null when the slot was never written, is torn, or belongs to another store.</summary>
    public static CheckpointRecord? Parse(ReadOnlySpan<byte> bytes, Guid storeId)
    {
        if (bytes.Length < Length
            || !Crc32C.IsSealed(bytes[..Length])
            || new Guid(bytes.Slice(40, 16)) != storeId)
            return null;
        var record = new CheckpointRecord(
            BinaryPrimitives.ReadInt64LittleEndian(bytes),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[8..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[16..]),
            new Guid(bytes.Slice(24, 16)));
        return record.Offset is < 0 or > LogLimits.OffsetMax || record.Offset % FrameHeader.Size != 0 ? null : record;
    }
}

using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format.Index;

/// <summary>
/// One entry of `offset/index`: a place in the log, and what is before it.
/// <code>
///  0 8 offset, a frame's start   8 8 number: the messages before it   16 8 time: the latest of any message before it
/// 24 4 series   28 4 CRC-32C of the log id and bytes 0 to 27
/// </code>
/// It carries its own offset, so one of an earlier turn of the ring never passes for another; nor does one of another log or
/// series.
/// </summary>
/// <param name="Offset">The start of a frame.</param>
/// <param name="Number">How many messages are before it, counted from the series' origin.</param>
/// <param name="Time">In units of 100 ns since 1970-01-01 UTC; <see cref="NoTime"/> when no message is before it.</param>
internal readonly record struct IndexEntry(long Offset, long Number, long Time)
{
    /// <summary>Length in bytes.</summary>
    public const int Length = 32;

    /// <summary>Earlier than every time.</summary>
    public const long NoTime = long.MinValue;

    private const int LogIdLength = 16;
    private const int Covered = 28;

    /// <summary>A time in the unit of the index.</summary>
    public static long TimeFrom(DateTimeOffset time) => time.UtcTicks - DateTimeOffset.UnixEpoch.UtcTicks;

    /// <summary>The time; null for <see cref="NoTime"/> and for what no clock can say.</summary>
    public DateTimeOffset? AsTime()
    {
        long first = -DateTimeOffset.UnixEpoch.UtcTicks;
        return Time < first || Time > DateTimeOffset.MaxValue.UtcTicks + first ? null : DateTimeOffset.UnixEpoch.AddTicks(Time);
    }

    public void Write(Span<byte> bytes, uint series, Guid logId)
    {
        BinaryPrimitives.WriteInt64LittleEndian(bytes, Offset);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[8..], Number);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[16..], Time);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes[24..], series);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes[Covered..], Checksum(bytes, logId));
    }

    /// <summary>The entry; null when it was never written, is torn, or belongs to another log or series.</summary>
    public static IndexEntry? Parse(ReadOnlySpan<byte> bytes, uint series, Guid logId)
    {
        if (bytes.Length < Length || BinaryPrimitives.ReadUInt32LittleEndian(bytes[Covered..]) != Checksum(bytes, logId)
            || (BinaryPrimitives.ReadUInt32LittleEndian(bytes[24..]) != series
                && !PlantedFaults.Has(PlantedFault.IndexSeriesIgnored)))
            return null;
        var entry = new IndexEntry(
            OffsetOf(bytes),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[8..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[16..]));
        return entry.Offset is < 0 or > LogLimits.OffsetMax || entry.Offset % FrameHeader.Size != 0 || entry.Number < 0
            ? null
            : entry;
    }

    /// <summary>The offset that the bytes name, whether they are an entry or not.</summary>
    public static long OffsetOf(ReadOnlySpan<byte> bytes) => BinaryPrimitives.ReadInt64LittleEndian(bytes);

    private static uint Checksum(ReadOnlySpan<byte> bytes, Guid logId)
    {
        Span<byte> covered = stackalloc byte[LogIdLength + Covered];
        logId.TryWriteBytes(covered);
        bytes[..Covered].CopyTo(covered[LogIdLength..]);
        return Crc32C.Compute(covered);
    }
}

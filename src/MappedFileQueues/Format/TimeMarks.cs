using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format;

/// <summary>An offset, and a time at which everything before it had been published.</summary>
/// <param name="Offset">The offset.</param>
/// <param name="Milliseconds">The time in UTC, since 1970.</param>
internal readonly record struct TimeMark(long Offset, long Milliseconds);

/// <summary>
/// Marks of time after each record of `offset/producer.checkpoint`: they tell the age of a message that has no time of its own.
/// <code>
///  128 4 CRC-32C of all that follows, up to the last mark    132 4 count    136 16 * count marks: offset, time
/// </code>
/// Each record brings one mark. When they are too many, the one goes whose neighbours are closest together for their age. So an
/// age that is read from them is too small by at most a tenth, however old the message is. Offsets and times rise.
/// </summary>
internal static class TimeMarks
{
    public const int CountMax = 240;

    private const int Position = 128;
    private const int HeaderLength = 8;
    private const int MarkLength = 16;

    /// <summary>Younger marks count as so old: otherwise the gaps between the youngest would count most.</summary>
    private const long YoungMilliseconds = 60_000;

    /// <summary>The marks of a slot's page, up to the record's offset; none when they are damaged.</summary>
    public static List<TimeMark> Parse(ReadOnlySpan<byte> page, long recordOffset)
    {
        List<TimeMark> marks = [];
        if (page.Length < CheckpointRecord.SlotDistance)
            return marks;
        int count = BinaryPrimitives.ReadInt32LittleEndian(page[(Position + 4)..]);
        if (count is < 0 or > CountMax
            || BinaryPrimitives.ReadUInt32LittleEndian(page[Position..]) != Crc32C.Compute(Covered(page, count)))
            return marks;
        for (int i = 0; i < count; i++)
        {
            ReadOnlySpan<byte> bytes = page[(Position + HeaderLength + (i * MarkLength))..];
            var mark = new TimeMark(
                BinaryPrimitives.ReadInt64LittleEndian(bytes), BinaryPrimitives.ReadInt64LittleEndian(bytes[8..]));
            if (mark.Offset <= recordOffset)
                marks.Add(mark);
        }

        return marks;
    }

    /// <summary>Writes the marks into a slot's page.</summary>
    public static void Write(Span<byte> page, List<TimeMark> marks)
    {
        BinaryPrimitives.WriteInt32LittleEndian(page[(Position + 4)..], marks.Count);
        for (int i = 0; i < marks.Count; i++)
        {
            Span<byte> bytes = page[(Position + HeaderLength + (i * MarkLength))..];
            BinaryPrimitives.WriteInt64LittleEndian(bytes, marks[i].Offset);
            BinaryPrimitives.WriteInt64LittleEndian(bytes[8..], marks[i].Milliseconds);
        }

        BinaryPrimitives.WriteUInt32LittleEndian(page[Position..], Crc32C.Compute(Covered(page, marks.Count)));
    }

    /// <summary>
    /// Adds a mark. Those beyond its offset were cut off, and those of a later time are of a clock that was wrong: both go.
    /// </summary>
    public static void Add(List<TimeMark> marks, TimeMark mark)
    {
        marks.RemoveAll(earlier => earlier.Offset >= mark.Offset || earlier.Milliseconds > mark.Milliseconds);
        marks.Add(mark);
        if (marks.Count <= CountMax)
            return;
        int closest = 1;
        double least = double.MaxValue;
        for (int i = 1; i < marks.Count - 1; i++)
        {
            double gap = marks[i + 1].Milliseconds - marks[i - 1].Milliseconds;
            double weight = gap / (mark.Milliseconds - marks[i + 1].Milliseconds + YoungMilliseconds);
            if (weight < least)
                (closest, least) = (i, weight);
        }

        marks.RemoveAt(closest);
    }

    /// <summary>A time at which the message at an offset was there; null when no mark tells one.</summary>
    public static DateTimeOffset? TimeOf(List<TimeMark> marks, long offset)
    {
        int index = marks.FindIndex(mark => mark.Offset > offset);
        return index < 0 ? null : DateTimeOffset.FromUnixTimeMilliseconds(
            Math.Clamp(marks[index].Milliseconds, 0, DateTimeOffset.MaxValue.ToUnixTimeMilliseconds()));
    }

    private static ReadOnlySpan<byte> Covered(ReadOnlySpan<byte> page, int count) =>
        page.Slice(Position + 4, HeaderLength - 4 + (count * MarkLength));
}

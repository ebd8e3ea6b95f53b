using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Counts messages by the headers of their frames. No counter is in the log, and a division by the length of a struct's frame
/// would count abandoned claims and the rest of a segment that was too short for a batch (decision 23). Each segment begins with
/// a frame, so segments are counted one by one, and one that is removed meanwhile does not end the count.
/// </summary>
internal sealed class MessageCounter(HeldDirectory directory, StoreMeta meta)
{
    /// <summary>The messages of each segment, in order.</summary>
    private readonly List<(long Start, long? Count)> _counts = [];

    private long _from;
    private long _to;

    /// <summary>The messages between two places that are frames' starts; null when damage is in the way.</summary>
    public static long? Count(HeldDirectory directory, StoreMeta meta, long from, long to)
    {
        var counter = new MessageCounter(directory, meta);
        counter.Count(from, to);
        return counter.CountFrom(from, logStart: 0);
    }

    /// <summary>Counts all messages between two places that are frames' starts.</summary>
    public void Count(long from, long to)
    {
        (_from, _to) = (from, to);
        for (long at = from; at < to; at = EndOf(at))
            _counts.Add((at, CountWithin(at)));
    }

    /// <summary>
    /// After <see cref="Count(long, long)"/>: how many of the messages begin at a frame's start or later; null when damage is in
    /// the way.
    /// </summary>
    /// <param name="offset">The frame's start.</param>
    /// <param name="logStart">What is before it is gone, and counts no more.</param>
    public long? CountFrom(long offset, long logStart)
    {
        offset = Math.Max(Math.Max(offset, logStart), _from);
        long? sum = 0;
        foreach ((long start, long? count) in _counts)
        {
            if (start >= offset)
                sum += count;
            else if (offset < Math.Min(EndOf(start), _to))
                sum += CountWithin(offset);
        }

        return sum;
    }

    /// <summary>
    /// Where the last messages of a given count begin; the log start when there are fewer. Reads the headers of the segments
    /// that hold them.
    /// </summary>
    /// <param name="count">How many.</param>
    /// <param name="end">The end of the published messages.</param>
    /// <param name="log">The log; retention may raise its start meanwhile.</param>
    public long FindFromEnd(long count, long end, LogView log)
    {
        while (count > 0)
        {
            long logStart = log.LogStart;
            if (end <= logStart)
                return logStart;
            long from = Math.Max(meta.StartOf(end - 1), logStart);
            if (!TryWalk(from, end, long.MaxValue, out long found, out long at)
                || (found >= count && !TryWalk(from, end, found - count, out _, out at)))
            {
                if (log.LogStart == logStart)
                    throw log.CorruptUnlessReplaced(at);
                continue;
            }

            if (found >= count)
                return at;
            count -= found;
            end = from;
        }

        return end;
    }

    /// <summary>Whether the frames from a frame's start on lead to an offset in its segment, or to the segment's end.</summary>
    public bool Leads(long from, long to) => TryWalk(from, to, long.MaxValue, out _, out _);

    private long EndOf(long offset) => meta.StartOf(offset) + meta.SegmentLength;

    private long? CountWithin(long from) =>
        TryWalk(from, Math.Min(EndOf(from), _to), long.MaxValue, out long count, out _) ? count : null;

    /// <summary>Walks within one segment from a frame's start to another, or to the message of a given number.</summary>
    private bool TryWalk(long from, long to, long number, out long count, out long at)
    {
        count = 0;
        at = from;
        long start = meta.StartOf(from);
        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null)
            return false;
        var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
        while (at < to && scanner.TryReadHeader(at - start, out ulong header))
        {
            FrameState state = FrameHeader.State(header);
            if (state is not (FrameState.Padding or FrameState.Claimed))
            {
                if (count == number)
                    return true;
                count++;
            }

            at += FrameHeader.FrameLength(FrameHeader.Length(header));
        }

        return at == to;
    }
}

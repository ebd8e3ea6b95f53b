using MappedFileQueues.Format;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Index;

/// <summary>
/// Finds messages by their number or time, and numbers by their offset: from the place in the index before what is wanted, by a
/// walk of at most a step. Without an index it walks from the log start, to the same numbers if the log begins at its origin.
/// Reads files at positions and writes nothing, so it needs no attached store.
/// <para>A message's time is its own, or else the time at which a flush counted it. The times in the index only rise, whatever
/// clocks did: nothing before the place that is found is of the wanted time or later. So a search by time may begin too early,
/// never too late.</para>
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="findLogStart">The log start now; retention may raise it meanwhile.</param>
/// <param name="corrupt">Makes the exception for a header that leads nowhere.</param>
internal sealed class MessageSearch(
    HeldDirectory directory, StoreMeta meta, Func<long> findLogStart, Func<long, Exception> corrupt)
    : IDisposable
{
    private readonly IndexFile? _index = IndexFile.TryOpen(directory, meta);

    /// <summary>Some place of the index, found at first: what is asked later counts from the same origin.</summary>
    private IndexEntry? _newest;

    /// <summary>The log start whose number is known, and the number.</summary>
    private (long Offset, long Number) _atLogStart = (-1, 0);

    public MessageSearch(LogView log)
        : this(log.Directory, log.Meta, () => log.LogStart, log.CorruptUnlessReplaced)
    {
    }

    /// <summary>The offset where number 0 is, if a place of the index is in the log.</summary>
    public long Origin => _index?.Page.Origin ?? 0;

    /// <summary>
    /// The newest place of the index, as it was when it was asked for first, as long as the log holds it. Null where no index
    /// tells numbers: then they count from the log start.
    /// </summary>
    public IndexEntry? FindNewest(long logStart, long end)
    {
        if (_newest is null || _newest.Value.Offset < logStart)
            _newest = FindPlace(logStart, end, static _ => true);
        return _newest;
    }

    /// <summary>How many messages begin before an offset, since number 0.</summary>
    /// <exception cref="OffsetOutOfRangeException">The offset is before the log start or after the end.</exception>
    public long NumberAt(long offset, long end)
    {
        while (true)
        {
            long logStart = findLogStart();
            if (offset < logStart || offset > end)
                throw new OffsetOutOfRangeException("The log does not hold the offset, so there is no number: "
                    + $"offset={offset}, logStart={logStart}, end={end}, path={directory.Path}.");
            if (TryGetStart(logStart, end, place => place.Offset <= offset, out IndexEntry from, out long at)
                && TryWalk(from, offset, static _ => false, out IndexEntry reached, out at) && from.Offset >= findLogStart())
                return reached.Number;
            ThrowIfStill(logStart, at);
        }
    }

    /// <summary>The messages between an offset and the end; what is before the log start counts no more.</summary>
    public long CountFrom(long offset, long end)
    {
        while (true)
        {
            long from = Math.Max(offset, findLogStart());
            if (from >= end)
                return 0;
            try
            {
                return NumberAt(end, end) - NumberAt(from, end);
            }
            catch (OffsetOutOfRangeException) when (from < findLogStart())
            {
                // Retention has overtaken it.
            }
        }
    }

    /// <summary>Where the message of a number begins; the end for the number that the next message will have.</summary>
    /// <exception cref="OffsetOutOfRangeException">The message was removed, or is not there yet.</exception>
    public long OffsetOf(long number, long end)
    {
        while (true)
        {
            long logStart = findLogStart();
            if (TryGetStart(logStart, end, place => place.Number <= number, out IndexEntry from, out long at)
                && (number < from.Number || TryWalk(from, end, here => here.Number == number, out from, out at))
                && logStart == findLogStart())
            {
                return from.Number == number
                    ? from.Offset
                    : throw new OffsetOutOfRangeException(
                        $"There is no message of this number{(number < from.Number ? " any longer" : " yet")}: number={number}, "
                        + $"{(number < from.Number ? "first" : "next")}={from.Number}, path={directory.Path}.");
            }

            ThrowIfStill(logStart, at);
        }
    }

    /// <summary>
    /// Where to begin to read, so as to miss no message of a time or later; the end when there is none.
    /// </summary>
    /// <param name="time">The time.</param>
    /// <param name="end">The end of what is published.</param>
    /// <param name="now">The time of now: what no flush has counted is not older.</param>
    public long OffsetOf(DateTimeOffset time, long end, DateTimeOffset now)
    {
        long wanted = IndexEntry.TimeFrom(time);
        while (true)
        {
            long logStart = findLogStart();
            IndexEntry from = FindPlace(logStart, end, place => place.Time < wanted)
                ?? new IndexEntry(logStart, 0, IndexEntry.NoTime);
            // What no flush has counted will get a time of now or later.
            long countedTo = now >= time ? long.MaxValue : FindNewest(logStart, end)?.Offset ?? logStart;
            if (TryWalk(from, end, here => here.Time == IndexEntry.NoTime ? here.Offset < countedTo : here.Time >= wanted,
                out IndexEntry reached, out long at) && from.Offset >= findLogStart())
                return reached.Offset;
            ThrowIfStill(logStart, at);
        }
    }

    /// <summary>
    /// How long the first message from an offset on has been there, at least: since its own time, or since a flush counted it.
    /// Zero when there is no message; null when nothing tells.
    /// </summary>
    /// <param name="offset">A frame's start.</param>
    /// <param name="end">The end of what is published.</param>
    /// <param name="now">The time of now.</param>
    /// <param name="marks">The marks of time that checkpoints leave.</param>
    public TimeSpan? AgeFrom(long offset, long end, DateTimeOffset now, List<TimeMark> marks)
    {
        offset = Math.Max(offset, findLogStart());
        if (!TryWalk(new IndexEntry(offset, 0, IndexEntry.NoTime), end, static _ => true, out IndexEntry message, out _))
            return null;
        if (message.Offset >= end)
            return TimeSpan.Zero;
        DateTimeOffset? time = message.Time == IndexEntry.NoTime ? null : message.AsTime();
        DateTimeOffset? mark = TimeMarks.TimeOf(marks, message.Offset);
        // A place after the message, and a mark after it, are of a time at which it was there; a mark is in whole milliseconds.
        time ??= Earlier(_index?.FindFirstPlace(directory, message.Offset + 1, end)?.AsTime(),
            mark < now ? mark.Value.AddMilliseconds(1) : mark);
        return time is null ? null : now > time ? now - time : TimeSpan.Zero;
    }

    public void Dispose() => _index?.Dispose();

    private static DateTimeOffset? Earlier(DateTimeOffset? one, DateTimeOffset? other) =>
        other < one || one is null ? other : one;

    private void ThrowIfStill(long logStart, long at)
    {
        if (findLogStart() == logStart)
            throw corrupt(at);
    }

    private IndexEntry? FindPlace(long logStart, long end, Func<IndexEntry, bool> isBefore) =>
        _index?.FindPlace(directory, logStart, end, isBefore);

    /// <summary>The place in the index before what is wanted, or else the log start with its number.</summary>
    private bool TryGetStart(long logStart, long end, Func<IndexEntry, bool> isBefore, out IndexEntry from, out long at)
    {
        at = logStart;
        if (FindPlace(logStart, end, isBefore) is { } place)
        {
            from = place;
            return true;
        }

        from = new IndexEntry(logStart, _atLogStart.Number, IndexEntry.NoTime);
        if (_atLogStart.Offset == logStart)
            return true;
        long number = 0;
        IndexEntry? newest = FindNewest(logStart, end);
        if (newest is not null)
        {
            IndexEntry first = _index!.FindFirstPlace(directory, logStart, end) ?? newest.Value;
            var start = new IndexEntry(logStart, 0, IndexEntry.NoTime);
            if (!TryWalk(start, first.Offset, static _ => false, out IndexEntry there, out at))
                return false;
            number = first.Number - there.Number;
        }

        _atLogStart = (logStart, number);
        from = new IndexEntry(logStart, number, IndexEntry.NoTime);
        return true;
    }

    /// <summary>
    /// Walks from a place over the headers, up to an offset or to the first message at which it shall stop.
    /// </summary>
    /// <param name="from">A frame's start, and its number.</param>
    /// <param name="to">The offset.</param>
    /// <param name="stopsAt">Asked for each message: its offset, number, and own time or <see cref="IndexEntry.NoTime"/>.</param>
    /// <param name="reached">The message, or the place at the offset or after it.</param>
    /// <param name="at">Where a header leads nowhere, or a segment is missing, if the result is false.</param>
    private bool TryWalk(IndexEntry from, long to, Func<IndexEntry, bool> stopsAt, out IndexEntry reached, out long at)
    {
        at = from.Offset;
        long number = from.Number;
        reached = from;
        while (at < to)
        {
            long start = meta.StartOf(at);
            using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
            if (file is null)
                return false;
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
            long end = Math.Min(to, start + meta.SegmentLength);
            while (at < end)
            {
                if (!scanner.TryReadHeader(at - start, out ulong header))
                    return false;
                if (FrameHeader.IsMessage(FrameHeader.State(header)))
                {
                    reached = new IndexEntry(at, number, scanner.TimeOf(header, at - start) ?? IndexEntry.NoTime);
                    if (stopsAt(reached))
                        return true;
                    number++;
                }

                at += FrameHeader.FrameLength(FrameHeader.Length(header));
            }
        }

        reached = new IndexEntry(at, number, IndexEntry.NoTime);
        return true;
    }
}

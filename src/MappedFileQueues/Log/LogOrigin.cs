using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>
/// Lets an empty log begin at another offset: from the start of that offset's segment padding leads up to it. Only before the
/// first message. Order: the new segment with its padding, its checkpoint, low water and hint; last the first header of
/// segment 0, by compare-and-swap, so a message that came in between wins and the call fails with nothing changed that anybody
/// reads.
/// </summary>
internal static unsafe class LogOrigin
{
    public static void Move(LogStore store, LogAppender appender, long offset)
    {
        if (offset % FrameHeader.Size != 0)
            throw new OffsetOutOfRangeException(
                $"An offset is a multiple of {FrameHeader.Size}: offset={offset}, path={store.Path}.");
        if (appender.TailOffset == offset)
            return;
        using Platform.PlatformLock open = OpenLock.Take(store.Directory, store.Settings.LockTimeout);
        long origin = store.LowWater;
        if (appender.TailOffset != origin || offset < origin)
            throw NotEmpty(store, offset);
        long start = store.Window.StartOf(offset);
        bool done = start == store.Window.StartOf(origin)
            ? TryPad(store, origin, offset)
            : TryMoveToSegment(store, origin, start, offset);
        if (!done)
            throw NotEmpty(store, offset);
        store.Roller.Raise(offset);
        store.Wake.WakeIfAwaited();
        appender.Restart();
    }

    private static bool TryMoveToSegment(LogStore store, long origin, long start, long offset)
    {
        store.Maker.Make(start, SegmentMaker.FirstBlocks);
        store.Maker.EnsureDirectoryFlushed(start);
        // The whole of the old first segment becomes padding, so that nobody can append there any more; it may be claimed
        // meanwhile.
        store.Maker.EnsureAllocated(origin + FrameHeader.Size);
        if (!TryPad(store, origin, origin + store.Window.SegmentLength))
            return false;
        // P16 full: before anybody follows; pairs with P16 acquire in SegmentRoller.
        SharedWord.RaiseTo(store.Control.LowWater, start);
        store.Control.SealColdBlock(store.Meta.StoreId);
        SharedWord.RaiseTo(store.Control.Allocated, start); // P20 full: pairs with P20 acquire in SegmentMaker.
        store.Maker.EnsureAllocated(Math.Min(offset + FrameHeader.Size, start + store.Window.SegmentLength));
        if (offset > start && !TryPad(store, start, offset))
            return false;
        store.Roller.Raise(offset);
        // P18 full: nothing lies before it; pairs with P18 acquire in LogFlusher.
        SharedWord.RaiseTo(store.Control.Confirmed, start);
        store.Flusher.CheckpointAt(start);
        DeleteSegments(store, origin, start);
        return true;
    }

    /// <summary>
    /// The first segment, and those that were made ahead of a tail which never came there: left in front of the new start they
    /// would pass for the beginning of the log when the store is next opened alone. The nearest goes first, so that a crash
    /// leaves a gap before the start.
    /// </summary>
    private static void DeleteSegments(LogStore store, long origin, long start)
    {
        IEnumerable<long> old = store.Directory.List(StoreNames.CommitLog)
            .Select(name => StoreNames.TryParseSegment(name, out long at) ? at : -1)
            .Where(at => at >= origin && at < start)
            .OrderDescending();
        foreach (long at in old)
            store.Directory.Delete(StoreNames.Segment(at));
    }

    /// <summary>
    /// Padding from one offset to another of the same segment; several frames where one cannot be so long, the first one last.
    /// </summary>
    private static bool TryPad(LogStore store, long from, long to)
    {
        store.Maker.EnsureAllocated(Math.Min(to + FrameHeader.Size, store.Window.StartOf(from) + store.Window.SegmentLength));
        SegmentMapping segment = store.Window.TryAcquire(store.Window.StartOf(from))
            ?? throw new QueueDeletedException($"A segment has disappeared: offset={from}, path={store.Path}.");
        try
        {
            const long longest = 1L << 28;
            long last = from + ((to - from - 1) / longest * longest);
            for (long at = last; at > from; at -= longest)
                *segment.HeaderAt(at - segment.Start) = store.Checksum.PaddingHeader(at, Math.Min(longest, to - at));
            ulong first = store.Checksum.PaddingHeader(from, Math.Min(longest, to - from));
            // P4 full: free to padding; pairs with P4 acquire in SegmentRoller and LogReader.
            return SharedWord.CompareExchange(segment.HeaderAt(from - segment.Start), 0, first);
        }
        finally
        {
            store.Window.Release(segment);
        }
    }

    private static InvalidOperationException NotEmpty(LogStore store, long offset) => new(
        $"The producer's offset can be adjusted only before the first message of an empty store: "
        + $"offset={offset}, path={store.Path}.");
}

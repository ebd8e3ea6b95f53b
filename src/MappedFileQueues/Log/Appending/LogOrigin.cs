using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Lets an empty log begin at another offset: padding leads from the start of that offset's segment up to it. Only before the
/// first message, and under `open` from the first step to the last. It may be repeated: padding is no message.
/// <code>
/// step                                                  killed after it
/// 1 make the new first segment                          an unused file
/// 2 raise low water to it: no producer enters a         taken back
///   segment any more, but one that is in the old first
///   segment may append there
/// 3 the old first header, free to padding: from here    taken back: the log goes on behind the padding
///   on no producer appends there; a message that came
///   first wins, and low water goes back
/// 4 sync the padding, write the checkpoint: decided;    carried on
///   raise the cursors to low water; record it on disk,
///   as a removal does, and that nothing was before it
/// 5 padding up to the offset                            carried on: the log begins at its segment's start
/// 6 raise the hint: waiting producers go on there       moved; the old segments are left over
/// 7 remove the old segments, flush the directory        -
/// </code>
/// A hint below low water means that a process is between 2 and 6, or died there. A process that finds this takes `open`, which
/// waits for a live one, and then completes or reverts the work of a dead one (<see cref="SettleUnderOpen"/>); a lone opener
/// does the same. Low water was once raised after the padding: a message that came in between went to a segment that step 7
/// removed.
/// </summary>
internal sealed unsafe class LogOrigin(LogStore store, LogFlusher flusher)
{
    /// <summary>The first offset that the log holds, once no process can take it back.</summary>
    public long FindFirst()
    {
        while (true)
        {
            long lowWater = store.LowWater;
            if (Hint() >= lowWater)
                return lowWater;
            store.ThrowIfClosing();
            Settle();
        }
    }

    /// <summary>Waits for a process that moves the origin, and settles the work of a dead one.</summary>
    public void Settle()
    {
        using Platform.PlatformLock open = store.TakeOpenLock();
        SettleUnderOpen();
    }

    /// <summary>
    /// With `open` held, a hint below low water is a dead process's; the checkpoint tells how far that process came.
    /// </summary>
    public void SettleUnderOpen()
    {
        long lowWater = store.LowWater;
        if (Hint() >= lowWater)
            return;
        if (new CheckpointFile(store.Directory, store.Meta.StoreId).Read()?.Offset >= lowWater)
            CarryOn(lowWater);
        else
            SetLowWater(OldestOffset.OfRun(store.Directory, store.Meta, Hint()));
    }

    public void Move(LogAppender appender, long offset)
    {
        if (offset % FrameHeader.Size != 0)
            throw new OffsetOutOfRangeException(
                $"An offset is a multiple of {FrameHeader.Size}: offset={offset}, path={store.Path}.");
        if (offset > LogLimits.OriginMax)
            throw new OffsetOutOfRangeException($"No log has room at this offset: offset={offset}, last={LogLimits.OriginMax}, "
                + $"path={store.Path}.");
        // Its own claim would block the padding, and this thread would wait for itself.
        store.Producers.ThrowIfOwnClaimIsOpen();
        if (appender.TailOffset == offset)
            return;
        using Platform.PlatformLock open = store.TakeOpenLock();
        SettleUnderOpen();
        long origin = store.LowWater;
        var walk = new FrameWalk(store);
        long tail = walk.FindMessage(origin, walk.NowLimit);
        if (appender.TailOffset != tail || offset < tail)
            throw NotEmpty(offset);
        appender.PrepareToMove();
        long start = store.Window.StartOf(offset);
        try
        {
            bool done = start == store.Window.StartOf(tail)
                ? TryPad(tail, offset)
                : TryMoveToSegment(origin, tail, start, offset);
            if (!done)
                throw NotEmpty(offset);
            SegmentRoller.Raise(store, offset);
            store.Wake.WakeIfAwaited();
        }
        finally
        {
            // Also after an error: the log may begin elsewhere nevertheless.
            appender.Restart();
        }
    }

    private bool TryMoveToSegment(long origin, long tail, long start, long offset)
    {
        store.Maker.Make(start, SegmentMaker.FirstBlocks);
        store.Maker.EnsureDirectoryFlushed(start);
        SetLowWater(start);
        ProtocolSteps.Reach(ProtocolStep.OriginRaised);
        try
        {
            long last = store.Window.StartOf(tail);
            if (!TryPad(tail, last + store.Window.SegmentLength))
                return false;
            ProtocolSteps.Reach(ProtocolStep.OriginPadded);
            // Before the checkpoint passes it: otherwise a cut could bring the old first segment back without its padding.
            flusher.SyncAhead(last);
            flusher.CheckpointAt(start);
            ProtocolSteps.Reach(ProtocolStep.OriginCheckpointed);
            SharedWord.RaiseTo(store.Control.Allocated, start); // P20 full: never entered; pairs with P20 acquire.
            if (offset > start && !TryPad(start, offset))
                return false;
        }
        finally
        {
            // Also after an error: threads that wait for this call must find the log at one place or the other.
            SettleUnderOpen();
        }

        DeleteSegments(origin, start);
        return true;
    }

    /// <summary>
    /// Makes the log begin at low water, as the checkpoint says. The checkpoint is synced before any append there (again: its
    /// writer may have died before the sync).
    /// </summary>
    private void CarryOn(long lowWater)
    {
        flusher.CheckpointAt(lowWater);
        bool isOrigin = WasNothingRemoved();
        if (isOrigin)
            RaiseCursors(lowWater);
        // A removal would take segments that are left over before it for the log's, because a consumer may stand there.
        CheckpointFile.RecordLowWater(
            store.Directory, store.Meta, lowWater, store.Control.Epoch, store.Control.BootId, isOrigin);
        SharedWord.RaiseTo(store.Control.Allocated, lowWater); // P20 full: never entered; pairs with P20 acquire.
        // P18 full: nothing lies before it; pairs with P18 acquire in LogStore.
        SharedWord.RaiseTo(store.Control.Confirmed, lowWater);
        SegmentRoller.Raise(store, lowWater);
    }

    /// <summary>Otherwise a consumer before low water was dropped, and its messages are gone.</summary>
    private bool WasNothingRemoved() => CheckpointFile.ReadLowWater(store.Directory, store.Meta) is var recorded
        && (recorded == 0 || CheckpointFile.IsOrigin(store.Directory, store.Meta, recorded));

    /// <summary>
    /// So that retention and producers wait for consumers that came before the move. One whose cursor this user may not write
    /// reads on as well, and counts from its next commit on.
    /// </summary>
    private void RaiseCursors(long lowWater)
    {
        foreach (string name in CursorFile.Names(store.Directory))
        {
            try
            {
                CursorFile.Raise(store.Directory, name, lowWater);
            }
            catch (QueueDiskException)
            {
                // The consumer's own calls meet the error.
            }
        }
    }

    private void SetLowWater(long offset)
    {
        store.Control.AnnounceColdWord(ControlLayout.LowWaterAt, (ulong)offset);
        SharedWord.WriteRelease(store.Control.LowWater, offset); // P16 release: pairs with P16 acquire in SegmentRoller.
        store.Control.SealColdBlock(store.Meta.StoreId);
    }

    private long Hint() =>
        SharedWord.ReadAcquire(store.Control.TailHint); // P14 acquire: pairs with P14 full in SegmentRoller.

    /// <summary>
    /// Deletes the first segment, and those prepared for a tail that never came there: left in front of the new start, they
    /// would look like the beginning of the log to the next lone opener. The nearest goes first, so that a crash leaves a gap
    /// before the start.
    /// </summary>
    private void DeleteSegments(long origin, long start)
    {
        IEnumerable<long> old = store.Directory.List(StoreNames.CommitLog)
            .Select(name => StoreNames.TryParseSegment(name, out long at) ? at : -1)
            .Where(at => at >= origin && at < start)
            .OrderDescending();
        foreach (long at in old)
            store.Directory.Delete(StoreNames.Segment(at));
        // Otherwise a cut could bring them back.
        store.Directory.FlushEntries(StoreNames.CommitLog);
    }

    /// <summary>
    /// Pads from one offset to another of the same segment, with several frames where one cannot be so long. Each takes a free
    /// place: a message that came in between stays, behind the padding before it, and the result is false.
    /// </summary>
    private bool TryPad(long from, long to)
    {
        store.Maker.EnsureAllocated(Math.Min(to + FrameHeader.Size, store.Window.StartOf(from) + store.Window.SegmentLength));
        SegmentMapping segment = store.Window.TryAcquire(store.Window.StartOf(from))
            ?? throw new QueueDeletedException($"A segment has disappeared: offset={from}, path={store.Path}.");
        try
        {
            for (long at = from, length; at < to; at += length)
            {
                length = Math.Min(FrameHeader.FrameLengthMax, to - at);
                long position = at - segment.Start;
                if (segment.MakeReadable(position, position + FrameHeader.Size, position + FrameHeader.Size) <= position)
                    throw LogErrors.Truncated(segment, at);
                ulong padding = store.Checksum.PaddingHeader(at, length);
                // P4 full: free to padding; pairs with P4 acquire in SegmentRoller and LogReader.
                if (!SharedWord.CompareExchange(segment.HeaderAt(position), 0, padding))
                    return false;
            }

            return true;
        }
        finally
        {
            store.Window.Release(segment);
        }
    }

    private InvalidOperationException NotEmpty(long offset) => new(
        $"The producer's offset can be adjusted only before the first message of an empty store: "
        + $"offset={offset}, path={store.Path}.");
}

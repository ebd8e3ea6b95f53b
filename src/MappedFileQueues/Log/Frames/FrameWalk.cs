using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Walks over the headers of the log, from a frame's start on, for flushing, seeking and status. A flush walks over every
/// message that it covers, so the loop over whole frames only loads, checks and adds, and allocates nothing.
/// </summary>
internal unsafe struct FrameWalk(LogStore store)
{
    private PageSteps _steps = new(PageSteps.ForWalking);
    private bool _stopsAtMessages;

    /// <summary>What a walk does at a claimed frame.</summary>
    private enum AtClaim
    {
        /// <summary>Steps over it.</summary>
        Continue,

        /// <summary>Ends there, unless the owner is dead: then the claim becomes padding.</summary>
        Repair,
    }

    /// <summary>The living owner's claim that ended the walk; 0 when none did.</summary>
    public ulong ClaimInTheWay { get; private set; }

    /// <summary>The messages that all walks of this object have passed.</summary>
    public long Messages { get; private set; }

    /// <summary>Those of them that carry a time.</summary>
    public long TimedMessages { get; private set; }

    /// <summary>The latest of these times; <see cref="IndexEntry.NoTime"/> when there is none.</summary>
    public long LatestTime { get; private set; } = IndexEntry.NoTime;

    /// <summary>
    /// No frame that is published now begins at or above this. Without a limit, a walk that follows a faster producer would never
    /// end. Every producer raises the tail hint when it enters a segment, before its first frame there.
    /// </summary>
    public readonly long NowLimit
    {
        get
        {
            // P14 acquire: pairs with P14 full in SegmentRoller.Raise.
            long hint = SharedWord.ReadAcquire(store.Control.TailHint);
            return store.Window.StartOf(hint) + store.Window.SegmentLength;
        }
    }

    /// <summary>The end of the last frame that is published now, whatever holes are before it.</summary>
    public long FindPublishedEnd(long from)
    {
        while (true)
        {
            long published = from;
            Walk(from, NowLimit, AtClaim.Continue, ref published);
            long logStart = store.LogStart;
            if (published >= logStart)
                return published;
            // A removal has overtaken the walk and ended it.
            from = logStart;
        }
    }

    /// <summary>
    /// The offset up to which everything is published, but not beyond the first frame's start at or above the limit. Dead claims
    /// on the way become padding.
    /// </summary>
    public long FindContiguousEnd(long from, long limit)
    {
        long published = from;
        return Walk(from, limit, AtClaim.Repair, ref published);
    }

    /// <summary>
    /// The first frame from an offset on that is not padding, or the free place, but not beyond the limit. Dead claims on the way
    /// become padding.
    /// </summary>
    public long FindMessage(long from, long limit)
    {
        _stopsAtMessages = true;
        return FindContiguousEnd(from, limit);
    }

    /// <summary>Whether an offset is the start of a frame or the tail, found by walking from its segment's first byte.</summary>
    public bool IsFrameStart(long offset)
    {
        if (offset == 0 || offset % store.Window.SegmentLength == 0)
            return IsSegmentStart(offset);
        return WalkOver(store.Window.StartOf(offset), offset) == offset;
    }

    /// <summary>
    /// A segment file may exist long before the tail reaches it. Its start counts once a frame is there, or when the segment
    /// before it is full.
    /// </summary>
    private bool IsSegmentStart(long offset) =>
        offset == store.LogStart || WalkOver(offset - store.Window.SegmentLength, offset) == offset;

    private long WalkOver(long from, long limit)
    {
        long published = from;
        return Walk(from, limit, AtClaim.Continue, ref published);
    }

    /// <summary>
    /// Goes from frame to frame until one is free, a claim ends the walk, or the limit is reached; returns the offset reached.
    /// </summary>
    private long Walk(long from, long limit, AtClaim atClaim, ref long published)
    {
        long offset = from;
        while (offset < limit)
        {
            SegmentMapping? segment = TryAcquire(offset);
            if (segment is null)
                return offset;
            try
            {
                if (!WalkSegment(segment, limit, atClaim, ref offset, ref published))
                    return offset;
            }
            finally
            {
                store.Window.Release(segment);
            }
        }

        return offset;
    }

    /// <summary>Null when the tail has not reached the segment yet, or when it was removed.</summary>
    private SegmentMapping? TryAcquire(long offset)
    {
        long start = store.Window.StartOf(offset);
        SegmentMapping? segment = store.Window.TryAcquire(start);
        if (segment is null && store.HasPassed(offset))
            segment = store.Window.TryAcquire(start);
        if (segment is null && store.HasPassed(offset))
        {
            store.ThrowIfReplaced();
            throw LogErrors.Missing(store.Path, start, offset);
        }

        return segment;
    }

    private bool WalkSegment(SegmentMapping segment, long limit, AtClaim atClaim, ref long offset, ref long published)
    {
        byte* first = segment.Pointer;
        long position = offset - segment.Start;
        long end = Math.Min(segment.SegmentLength, limit - segment.Start);
        long readable = 0;
        long messages = 0;
        bool isThrough = true;
        while (position < end)
        {
            if (position + FrameHeader.Size > readable && !MayRead(segment, position, out readable))
            {
                isThrough = false;
                break;
            }

            // P4 acquire: pairs with P1 release, P2, P3 and P4 full in the appenders and ClaimRepair.
            ulong header = SharedWord.ReadAcquire((ulong*)(first + position));
            if (header == 0)
            {
                if (!store.HasPassed(segment.Start + position))
                {
                    isThrough = false;
                    break;
                }

                // P4 acquire: once more; pairs with P1 release and P3 full.
                header = SharedWord.ReadAcquire((ulong*)(first + position));
                if (header == 0)
                    throw store.Corrupt(segment.Start + position, header);
            }

            if (!FrameHeader.IsPlausible(header, segment.SegmentLength - position))
                throw store.Corrupt(segment.Start + position, header);
            FrameState state = FrameHeader.State(header);
            if (state == FrameState.Claimed)
            {
                if (atClaim == AtClaim.Repair)
                {
                    if (IsOutOfTheWay(segment, position, header))
                        continue;
                    ClaimInTheWay = header;
                    isThrough = false;
                    break;
                }

                // A claim that was published in between as a batch keeps its place, but its first frame is shorter.
                header = SharedWord.ReadAcquire((ulong*)(first + position)); // P4 acquire: pairs with P3 and P4 full.
                position += FrameHeader.FrameLength(FrameHeader.Length(header));
                offset = segment.Start + position;
                continue;
            }

            if (_stopsAtMessages && state != FrameState.Padding)
            {
                isThrough = false;
                break;
            }

            messages += state != FrameState.Padding ? 1 : 0;
            if (FrameHeader.IsExtended(header))
                NoteTime(segment, position, header, readable);
            position += FrameHeader.FrameLength(FrameHeader.Length(header));
            published = offset = segment.Start + position;
        }

        Messages += messages;
        return isThrough;
    }

    private void NoteTime(SegmentMapping segment, long position, ulong header, long readable)
    {
        long payload = position + FrameHeader.Size;
        int length = Math.Min(FrameHeader.Length(header), MessageTimes.Reach);
        long end = payload + length;
        if ((end > readable && segment.MakeReadable(payload, end, end) < end)
            || MessageTimes.TimeOf(header, new ReadOnlySpan<byte>(segment.Pointer + payload, length)) is not { } time)
            return;
        TimedMessages++;
        LatestTime = Math.Max(LatestTime, time);
    }

    /// <summary>Whether a header may be loaded there, and up to where that holds.</summary>
    private bool MayRead(SegmentMapping segment, long position, out long readable)
    {
        // Read once: it may rise meanwhile, and then a place that was beyond it would look as if the file had lost it.
        long allocated = store.Allocated;
        long needed = position + FrameHeader.Size;
        readable = Math.Min(allocated - segment.Start, segment.Usable);
        if (needed <= readable)
            readable = _steps.MakeReadable(segment, position, needed, readable, store.WrittenTo);
        if (needed <= readable)
            return true;
        if (segment.Start + needed <= allocated)
            throw LogErrors.Truncated(segment, segment.Start + position);
        return false;
    }

    /// <summary>Whether the claim was published meanwhile, or became padding because its owner is dead.</summary>
    private readonly bool IsOutOfTheWay(SegmentMapping segment, long position, ulong claim)
    {
        ulong* header = segment.HeaderAt(position);
        // P4 acquire: again after the repair; pairs with P3 full in SharedAppender.
        return store.TryRepair(header, claim, segment.Start + position)
            && FrameHeader.State(SharedWord.ReadAcquire(header)) != FrameState.Claimed;
    }
}

using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>Walks over the headers of the log, from a frame's start on, for flushing, seeking and status.</summary>
internal sealed unsafe class FlushWalk(LogStore store)
{
    /// <summary>The walk met messages without checksum: recovery trusts those only below the checkpoint.</summary>
    public bool SawUnchecked { get; private set; }

    /// <summary>
    /// No frame that is published now begins at or above this. Without a limit a walk behind a producer that is faster than it
    /// would never end. Everybody raises the tail hint when he enters a segment, before his first frame there.
    /// </summary>
    public long NowLimit
    {
        get
        {
            // P14 acquire: pairs with P14 full in SegmentRoller.Raise.
            long hint = SharedWord.ReadAcquire(store.Control.TailHint);
            return store.Window.StartOf(hint) + store.Window.SegmentLength;
        }
    }

    /// <summary>The end of the last frame that is published by now, holes before it included.</summary>
    public long FindPublishedEnd(long from)
    {
        long published = from;
        Walk(from, NowLimit, (header, offset, end) =>
        {
            if (FrameHeader.State(*header) != FrameState.Claimed)
                published = end;
            return true;
        });
        return published;
    }

    /// <summary>
    /// The offset up to which everything is published, at most the first frame's start at or above the limit; dead claims on
    /// the way become padding.
    /// </summary>
    public long FindContiguousEnd(long from, long limit) => Walk(from, limit, (header, offset, _) =>
    {
        // P4 acquire: pairs with P2, P3 and P4 full in SharedAppender and HoleRepair.
        ulong seen = SharedWord.ReadAcquire(header);
        if (FrameHeader.State(seen) == FrameState.Claimed)
        {
            // P4 acquire: again after the repair; pairs with P3 full in SharedAppender.
            return store.TryRepair(header, seen, offset)
                && FrameHeader.State(SharedWord.ReadAcquire(header)) != FrameState.Claimed;
        }

        SawUnchecked |= FrameHeader.State(seen) is FrameState.PublishedUnchecked or FrameState.PublishedInBatchUnchecked;
        return true;
    });

    /// <summary>Whether an offset is a frame's start or the tail, found by walking from its segment's first byte.</summary>
    public bool IsFrameStart(long offset)
    {
        if (offset == 0 || offset % store.Window.SegmentLength == 0)
            return IsSegmentStart(offset);
        return Walk(store.Window.StartOf(offset), offset, (_, _, _) => true) == offset;
    }

    /// <summary>
    /// A segment file may be there long before the tail reaches it: its start counts once a frame stands there, or when the
    /// segment before it is full.
    /// </summary>
    private bool IsSegmentStart(long offset)
    {
        if (offset == store.LowWater)
            return true;
        return Walk(offset - store.Window.SegmentLength, offset, (_, _, _) => true) == offset;
    }

    /// <summary>
    /// Visits frames until one is free, the visitor says stop, or the limit is reached; returns the offset reached.
    /// </summary>
    private long Walk(long from, long limit, Visit visit)
    {
        long offset = from;
        while (offset < limit)
        {
            SegmentMapping? segment = store.Window.TryAcquire(store.Window.StartOf(offset));
            if (segment is null)
                return offset;
            try
            {
                if (!WalkSegment(segment, limit, visit, ref offset))
                    return offset;
            }
            finally
            {
                store.Window.Release(segment);
            }
        }

        return offset;
    }

    private bool WalkSegment(SegmentMapping segment, long limit, Visit visit, ref long offset)
    {
        while (offset < segment.End && offset < limit)
        {
            long position = offset - segment.Start;
            if (offset + FrameHeader.Size > store.Allocated)
                return false;
            if (position + FrameHeader.Size > segment.Usable)
                throw store.Truncated(segment, offset);
            // P4 acquire: pairs with P1 release, P2, P3 and P4 full in the appenders and HoleRepair.
            ulong header = SharedWord.ReadAcquire(segment.HeaderAt(position));
            if (header == 0)
                return false;
            if (!FrameHeader.IsPlausible(header, segment.SegmentLength - position))
                throw store.Corrupt(offset, header, segment.SegmentLength - position);
            // The length is read once: a claim that is published in between as a batch keeps its place, and its first frame is
            // shorter.
            long end = offset + FrameHeader.FrameLength(FrameHeader.Length(header));
            if (!visit(segment.HeaderAt(position), offset, end))
                return false;
            ulong now = SharedWord.ReadAcquire(segment.HeaderAt(position)); // P4 acquire: pairs with P3 and P4 full.
            offset += FrameHeader.FrameLength(FrameHeader.Length(now));
        }

        return true;
    }

    private delegate bool Visit(ulong* header, long offset, long end);
}

using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// The rare path of every append: brings a lane to a free place with room for a frame. It walks over others' frames, allocates
/// blocks, and rolls to the next segment.
/// <para>The steps of a roll, and what a crash after each leaves: 1 make segment N + 1 (an unused file), 2 pad the rest of N by
/// one compare-and-swap from free (walkers continue to N + 1), 3 enter N + 1: flush the directory unless that was done, and read
/// the log start again, because retention may have removed the segment while this producer was stopped; below the log start,
/// start again at the tail hint.</para>
/// </summary>
internal sealed unsafe class SegmentRoller(
    LogStore store, FlushEngine flusher, RetentionThread retention, ConsumerLimit? consumerLimit = null)
{
    /// <summary>
    /// The largest step of the bound: each time it is reached, the preparer is notified and the tail hint is raised.
    /// </summary>
    private const long BoundStep = 256 * 1024;

    /// <summary>
    /// Far longer than a process takes between closing one descriptor and the next, even when it has to wait for a CPU.
    /// </summary>
    private static readonly TimeSpan OwnerExitMax = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Moves the lane to a header that was free when it was read, with room and blocks for the frame in its segment.
    /// </summary>
    /// <param name="lane">The lane.</param>
    /// <param name="frameLength">The frame's length, or that of a whole batch.</param>
    /// <param name="isForMessage">False: what is to be there adds nothing that a consumer has to read.</param>
    /// <returns>False when a message would be too far beyond the slowest consumer.</returns>
    public bool MakeRoom(AppendLane lane, long frameLength, bool isForMessage = false)
    {
        if (lane.Segment is null)
            MapAt(lane, SharedWord.ReadAcquire(store.Control.TailHint)); // P14 acquire: pairs with P14 full in Raise.
        var walk = new Reach();
        while (true)
        {
            SegmentMapping segment = lane.Segment!;
            long position = lane.Position;
            if (position == segment.SegmentLength)
            {
                MapAt(lane, segment.End);
                continue;
            }

            ThrowIfTruncated(segment, position);
            bool hasBlock = TryEnsureAllocated(lane, segment, position + FrameHeader.Size);
            if (TryStepOver(lane, segment, position, ref walk))
                continue;
            // The rest of a segment that cannot grow becomes padding; the padding's header needs a block.
            if (!hasBlock)
                store.Allocator.EnsureAllocated(segment.Start + position + FrameHeader.Size, lane.LookWhileWaiting);
            long end = position + frameLength;
            long endInLog = segment.Start + end + (end > segment.SegmentLength ? segment.SegmentLength - position : 0);
            if (consumerLimit is not null && !IsBelowCeiling(lane, segment.Start + position, endInLog) && isForMessage)
            {
                lane.Bound = null;
                return false;
            }

            if (end > segment.SegmentLength || !TryEnsureAllocated(lane, segment, Math.Min(end + 8, segment.SegmentLength)))
            {
                if (TryPadRest(lane, segment, position))
                    lane.Next += segment.SegmentLength - position;
                continue;
            }

            SetBound(lane, segment, position, frameLength);
            return true;
        }
    }

    /// <summary>Moves a lane to an offset, which is the start of a frame, or past it when retention has overtaken it.</summary>
    public void MapAt(AppendLane lane, long offset)
    {
        if (lane.Segment is not null)
            store.ThrowIfReplaced();
        while (true)
        {
            long start = store.Window.StartOf(offset);
            SegmentMapping? segment = store.Window.TryAcquire(start);
            // P16 acquire: read after the segment was opened; pairs with P16 full in SegmentTrimmer, which raises it before a
            // segment is unlinked.
            bool isBelowLogStart = start < SharedWord.ReadAcquire(store.Control.LogStart)
                && !PlantedFaults.Has(PlantedFault.LogStartNotReadAgain);
            if (segment is null && !isBelowLogStart)
            {
                store.Maker.Make(start, SegmentMaker.FirstBlocks, lane.LookWhileWaiting);
                continue;
            }

            if (isBelowLogStart)
            {
                if (segment is not null)
                    store.Window.Release(segment);
                store.ThrowIfClosing();
                offset = SharedWord.ReadAcquire(store.Control.TailHint); // P14 acquire: pairs with P14 full in Raise.
                continue;
            }

            try
            {
                store.Maker.EnsureDirectoryFlushed(start);
            }
            catch
            {
                store.Window.Release(segment!);
                throw;
            }

            // P20 full: a segment that a walker has passed needs no blocks, even if the producer that padded it died before it
            // raised this; pairs with P20 acquire in BlockAllocator.
            SharedWord.RaiseTo(store.Control.Allocated, start);
            bool hasRolled = lane.Segment is not null;
            if (hasRolled && lane.Segment!.End == start)
                NoteCompleted(lane.Segment);
            Unmap(lane);
            lane.MoveTo(segment!, offset - start);
            ProtocolSteps.Reach(ProtocolStep.SegmentEntered);
            Raise(store, offset);
            // Here and not at the padding: a segment that was filled exactly has none. After the hint, which tells how far there
            // is something to flush.
            if (hasRolled)
            {
                flusher.NoticeRoll();
                retention.NoticeRoll();
            }

            return;
        }
    }

    /// <summary>Releases the lane's segment.</summary>
    public void Unmap(AppendLane lane)
    {
        lane.Bound = null;
        lane.WritableTo = 0;
        SegmentMapping? left = lane.Segment;
        lane.Segment = null;
        if (left is not null)
            store.Window.Release(left);
    }

    /// <summary>
    /// The first producer that continues in the next segment says when this one was completed: retention by age depends on it.
    /// The system itself notices stores into a mapped page only when the page was clean before. Before the hint, so that a
    /// producer that dies in between leaves it to the next one.
    /// </summary>
    private void NoteCompleted(SegmentMapping segment)
    {
        // P14 acquire: pairs with P14 full in Raise.
        if (SharedWord.ReadAcquire(store.Control.TailHint) < segment.End)
            segment.File.NoteWritten();
    }

    /// <summary>Raises the tail hint to a frame's start that a walker reached.</summary>
    // P14 full: the frames below were seen; pairs with P14 acquire in MakeRoom.
    private static void Raise(LogStore store, long offset) => SharedWord.RaiseTo(store.Control.TailHint, offset);

    /// <summary>
    /// Looks at the consumers when the lane reaches its ceiling, and once a step: one may have appeared, or moved back.
    /// </summary>
    private bool IsBelowCeiling(AppendLane lane, long place, long end)
    {
        if (place < lane.CeilingUntil && end <= lane.Ceiling)
            return true;
        bool allows = consumerLimit!.Allows(place, end, out lane.Ceiling);
        lane.CeilingUntil = place + BoundStep;
        return allows;
    }

    /// <summary>False when the segment cannot grow so far (for example Portable, in a segment that Linux made).</summary>
    private bool TryEnsureAllocated(AppendLane lane, SegmentMapping segment, long position) =>
        store.Allocator.TryEnsureAllocated(segment.Start + position, lane.LookWhileWaiting);

    private bool TryStepOver(AppendLane lane, SegmentMapping segment, long position, ref Reach walk)
    {
        if (segment.Start + position + FrameHeader.Size > lane.WritableTo)
            walk.Cover(store, segment, position);
        // P4 acquire: free, or a whole frame; pairs with P3 full and P4 full.
        ulong header = SharedWord.ReadAcquire(segment.HeaderAt(position));
        if (header == 0)
        {
            if (!IsPassed(segment, position))
                return false;
            // P4 acquire: again, after the word that says so; pairs with P3 full and P4 full.
            header = SharedWord.ReadAcquire(segment.HeaderAt(position));
            // A frame was here. What follows it was published, and a claim would overwrite it.
            if (header == 0)
                throw store.Corrupt(segment.Start + position, header);
        }

        if (!FrameHeader.IsPlausible(header, segment.SegmentLength - position))
            throw store.Corrupt(segment.Start + position, header);
        if (lane.IsExclusive)
            ThrowIfForeign(lane, segment, position, header);
        lane.Next += FrameHeader.FrameLength(FrameHeader.Length(header));
        return true;
    }

    /// <summary>Whether walkers or a flush have passed a place, so that no header there is free.</summary>
    private bool IsPassed(SegmentMapping segment, long position) =>
        segment.Start + position < store.PassedTo && segment.Start >= store.LogStart;

    /// <summary>
    /// False when another producer was faster: then a frame is here. Only a segment that cannot grow leaves a rest that is
    /// longer than any frame, and no padding covers that.
    /// </summary>
    private bool TryPadRest(AppendLane lane, SegmentMapping segment, long position)
    {
        long rest = segment.SegmentLength - position;
        if (rest > FrameHeader.FrameLengthMax)
            throw store.Allocator.CannotGrow(segment.Start + position);
        EnsureNext(lane, segment);
        ulong padding = store.Checksum.PaddingHeader(segment.Start + position, rest);
        // P4 full: the next segment exists before the rest is padding; pairs with P4 acquire in TryStepOver and LogReader.
        if (!SharedWord.CompareExchange(segment.HeaderAt(position), 0, padding))
            return false;
        ProtocolSteps.Reach(ProtocolStep.RestPadded);
        SharedWord.RaiseTo(store.Control.Allocated, segment.End); // P20 full: the rest needs no blocks; pairs with P20 acquire.
        store.Wake.WakeIfAwaited();
        return true;
    }

    private void EnsureNext(AppendLane lane, SegmentMapping segment)
    {
        // P20 acquire: pairs with P20 full in BlockAllocator.
        if (SharedWord.ReadAcquire(store.Control.Allocated) > segment.End)
            return;
        store.Maker.Make(segment.End, SegmentMaker.FirstBlocks, lane.LookWhileWaiting);
    }

    private void SetBound(AppendLane lane, SegmentMapping segment, long position, long frameLength)
    {
        // P20 acquire: pairs with P20 full in BlockAllocator.
        long allocated = SharedWord.ReadAcquire(store.Control.Allocated);
        long limit = Math.Min(Math.Min(segment.SegmentLength, allocated - segment.Start), position + BoundStep);
        // The frame and the next header: a store into a page that the disk cannot give would end the process. A claim takes the
        // bound away each time; the pages known to be writable stay known.
        long needed = Math.Min(position + frameLength + FrameHeader.Size, segment.SegmentLength);
        long there = lane.WritableTo - segment.Start;
        if (there < needed)
        {
            there = segment.MakeWritable(
                position, needed, Math.Max(needed, limit), singly: store.Producers.Preparer?.MayWantSinglePages == true);
            if (there < needed)
                throw LogErrors.Truncated(segment, segment.Start + position);
            lane.WritableTo = segment.Start + there;
        }

        // A frame may end at the ceiling; the bound leaves room for a header after it.
        long bound = consumerLimit is null
            ? limit
            : Math.Clamp(Math.Min(lane.Ceiling, lane.CeilingUntil) - segment.Start, 0, limit - FrameHeader.Size)
                + FrameHeader.Size;
        lane.Bound = lane.MayHaveBound ? segment.Pointer + Math.Min(bound, there) : null;
        Raise(store, segment.Start + position);
        // From the frame's end on: the frame itself, perhaps a megabyte, is not room for the next one. Not at each page that was
        // not ready: a lead that doubles with each notice would take all available room.
        if (segment.Start + position < lane.NoticeFrom)
            return;
        lane.NoticeFrom = segment.Start + Math.Max(position, Math.Min(limit, position + BoundStep));
        store.Producers.Preparer?.Notice(segment.Start + position + frameLength, allocated);
    }

    /// <summary>
    /// An Exclusive producer walks only once, to find the tail at its start. It holds the producers' lock, so every claim on the
    /// way is a dead owner's. Later, a frame at its own place means that a process writes without the lock.
    /// </summary>
    private void ThrowIfForeign(AppendLane lane, SegmentMapping segment, long position, ulong header)
    {
        long offset = segment.Start + position;
        bool isLiving = FrameHeader.State(header) == FrameState.Claimed && !TryRepairPatiently(segment, position, header);
        if (isLiving || lane.HasStarted)
            throw LogErrors.Foreign(store.Path, offset);
    }

    /// <summary>
    /// The kernel closes a dying process's files one after the other: the producers' lock may be free while the lock on its slot
    /// still makes it look alive.
    /// </summary>
    private bool TryRepairPatiently(SegmentMapping segment, long position, ulong header)
    {
        var deadline = new Deadline(OwnerExitMax);
        while (!store.Claims.TryRepair(segment.HeaderAt(position), header, segment.Start + position))
        {
            if (deadline.IsOver)
                return false;
            store.ThrowIfClosing();
            Thread.Sleep(1);
        }

        return true;
    }

    private void ThrowIfTruncated(SegmentMapping segment, long position)
    {
        if (segment.Usable < segment.SegmentLength)
            throw LogErrors.Truncated(segment, segment.Start + position);
    }

    /// <summary>How far a walk over others' frames may read: the pages that were requested from the system.</summary>
    private struct Reach()
    {
        private PageSteps _steps = new(PageSteps.ForWalking);
        private SegmentMapping? _segment;
        private long _readable;

        /// <summary>Makes sure that the header at an allocated position can be read.</summary>
        public void Cover(LogStore store, SegmentMapping segment, long position)
        {
            long needed = position + FrameHeader.Size;
            if (segment == _segment && needed <= _readable)
                return;
            _segment = segment;
            long limit = Math.Max(needed, Math.Min(store.Allocated - segment.Start, segment.Usable));
            _readable = _steps.MakeReadable(segment, position, needed, limit, store.WrittenTo);
            if (_readable < needed)
                throw LogErrors.Truncated(segment, segment.Start + position);
        }
    }
}

using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// The part of the log that is mapped for this reader, and how far it may read: entering and leaving segments, the bound, the
/// end.
/// </summary>
internal sealed unsafe partial class LogReader
{
    /// <summary>The segments that earlier threads may still read after another thread took over, one for each thread.</summary>
    private readonly List<(CallMark Owner, SegmentMapping Segment)> _spansOfOthers = [];

    /// <summary>From here to the reach, all pages were asked for: where the reader entered the segment, or jumped to.</summary>
    private byte* _askedFrom;

    /// <summary>
    /// Moves to a frame's start that the caller has verified. A message in hand may be out as a span, which the next read ends:
    /// its segment stays until then.
    /// </summary>
    public void MoveTo(long offset)
    {
        if (HasMessage)
        {
            EndSpan();
            _segmentOfSpan = log.Window.Share(_segment!);
        }

        Advance();
        LeaveSegment();
        _addressToOffset = offset;
    }

    /// <summary>
    /// Like <see cref="MoveTo"/>, for a caller whose span has ended: within what was read or reached of the segment it costs
    /// nothing.
    /// </summary>
    public void JumpTo(long offset)
    {
        long distance = offset - Advance();
        if (distance == 0)
            return;
        if (_segment is { } segment && offset < segment.End && offset >= segment.Start && _next + distance >= _askedFrom)
        {
            _next += distance;
            // Nobody has asked for the pages in between.
            if (_next > _reach)
                _askedFrom = _next;
        }
        else
        {
            MoveTo(offset);
        }
    }

    /// <summary>A message was read after the move, so the span has ended.</summary>
    public void EndSpan()
    {
        if (_segmentOfSpan is null)
            return;
        log.Window.Release(_segmentOfSpan);
        _segmentOfSpan = null;
    }

    /// <summary>
    /// Refuses new calls and waits for the one under way.
    /// </summary>
    /// <param name="wake">Wakes a call that sleeps.</param>
    public void Close(Action wake)
    {
        ChangeBar(BarClosed, isSet: true);
        _bound = null;
        Interlocked.MemoryBarrierProcessWide(); // P7 full: bound away before the load; pairs with P7 release in SingleCaller.
        Uninterrupted.Run(() => AwaitCall(wake));
    }

    private void AwaitCall(Action wake)
    {
        wake();
        var spinner = new SpinWait();
        while (IsInCall)
        {
            spinner.SpinOnce();
            if (spinner.NextSpinWillYield && spinner.Count % 64 == 0)
                wake();
        }
    }

    /// <summary>
    /// Releases the mappings; this thread's spans into them end here. The end of the reader and the next call of a thread may
    /// both come here at once.
    /// </summary>
    public void ReleaseSegment()
    {
        byte here;
        lock (_spansOfOthers)
        {
            EndSpan();
            LeaveSegment();
            EndSpansOf(owner: null, &here);
        }
    }

    /// <summary>
    /// In a call: throws when the reader is closed, or when an asynchronous call waits and owns it. It may end the last span.
    /// </summary>
    /// <param name="name">Who reads, for users.</param>
    public void ThrowIfBarred(string name)
    {
        if (IsBarred)
            throw Barred(name);
    }

    /// <summary>
    /// In a call: the reason why it is refused. A reader that is closed after the bars were seen is not one that another call
    /// waits for.
    /// </summary>
    public InvalidOperationException Barred(string name)
    {
        if (!IsClosed)
            return AsyncWaiter.AlreadyWaiting();
        ReleaseOrphan();
        return new ObjectDisposedException(name);
    }

    /// <summary>
    /// After the end: this thread's spans end. Releases the mappings unless another thread holds a span. That one releases them
    /// inside its next call, because no thread needs the memory any longer.
    /// </summary>
    public void ReleaseOrphan()
    {
        byte here;
        EndSpansOf(owner: null, &here);
        // While a wait owns the reader, its thread reads; the end releases them after the wait.
        if (!HasBar(BarAwaited) && !MayHaveSpanOfOther)
            ReleaseSegment();
    }

    /// <summary>
    /// Takes the reader over from the thread that called last. That thread may still read a message in place, although its turn
    /// is over; the memory stays until that thread's next call.
    /// </summary>
    /// <param name="stack">The address of a local variable of the caller.</param>
    /// <exception cref="InvalidOperationException">Another thread is in a call.</exception>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public void TakeOver(byte* stack)
    {
        if (!Take(stack))
            throw new InvalidOperationException("Two threads call a consumer or reader at once; this call did nothing: "
                + $"offset={Offset}, path={log.Path}. Let them take turns, or open one for each thread under its own name.");
        EndSpansOf(Owner);
        if (IsClosed)
        {
            // The end may not have come to it yet: nothing is read in this call.
            _bound = null;
            return;
        }

        if (MayHaveSpanOfOther)
        {
            KeepForOther(_segmentOfSpan);
            if (HasMessage)
                KeepForOther(_segment);
        }

        // The span is kept, or over. What is read from here on, and perhaps copied out, is not that thread's.
        if (_spanOwner != Owner)
            _spanOwner = null;
    }

    /// <summary>
    /// Throws when the file has a message here that the mapping does not show. On overlayfs a reader that came before the first
    /// writer has mapped the file of the lower layer; that writer's open copied it up, and its messages are in the copy alone.
    /// The reader's descriptor follows the copy, its mapping does not. Only inside a call that has found nothing to read.
    /// </summary>
    public void ThrowIfLeftBehind()
    {
        if (_segment is null || _next + FrameHeader.Size > _reach)
            return;
        ulong inFile = 0;
        int read = _segment.File.ReadAt(new Span<byte>(&inFile, sizeof(ulong)), _next - _segment.Pointer);
        // P1 acquire: after the look at the file; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        if (read == sizeof(ulong) && inFile != 0 && SharedWord.ReadAcquire((ulong*)_next) == 0)
            throw new QueueDeletedException("The store's files were replaced under this reader, as an overlay file system does "
                + $"when a first writer opens them: offset={Offset}, path={log.Path}. Open the reader again.");
    }

    private void KeepForOther(SegmentMapping? segment)
    {
        if (segment is null)
            return;
        lock (_spansOfOthers)
            _spansOfOthers.Add((_spanOwner!, log.Window.Share(segment)));
    }

    /// <summary>
    /// Ends the spans of one thread, by its mark or its stack, and those of threads that have ended. Allocates nothing: readers
    /// that await come here for each message.
    /// </summary>
    private void EndSpansOf(CallMark? owner, byte* stack = null)
    {
        lock (_spansOfOthers)
        {
            for (int i = _spansOfOthers.Count - 1; i >= 0; i--)
            {
                (CallMark mark, SegmentMapping segment) = _spansOfOthers[i];
                if (mark != owner && (stack is null || !mark.IsOf(stack)) && mark.Thread is { IsAlive: true })
                    continue;
                _spansOfOthers.RemoveAt(i);
                log.Window.Release(segment);
            }
        }
    }

    private void LeaveSegment()
    {
        SegmentMapping? left = _segment;
        if (left is null)
            return;
        _messageOffset = MessageOffset;
        _addressToOffset = Offset;
        _segment = null;
        _next = _passed = null;
        _inHand = 0;
        _bound = null;
        _reach = null;
        log.Window.Release(left);
    }

    /// <summary>
    /// Makes sure that the header at the reader's position may be loaded: inside a mapped segment, below what is allocated.
    /// </summary>
    private bool TryReachHeader(out long room)
    {
        while (true)
        {
            room = 0;
            if (_segment is null && !TryMapAt(Offset))
                return false;
            SegmentMapping segment = _segment!;
            long position = _next - segment.Pointer;
            room = segment.SegmentLength - position;
            if (room == 0)
            {
                if (!TryMapAt(segment.End))
                    return false;
                continue;
            }

            if (_next + FrameHeader.Size <= _bound)
                return true;
            if (_next + FrameHeader.Size <= _reach && !IsClosed)
            {
                SetBound(_reach);
                return true;
            }

            if (!TryRaiseBound(segment, position))
                return false;
        }
    }

    private bool TryMapAt(long offset)
    {
        log.ThrowIfReadingEnded(IsClosed);
        long start = log.Window.StartOf(offset);
        SegmentMapping? segment = log.Window.TryAcquire(start);
        bool isKept = false;
        try
        {
            // At or above the log start a missing segment means "nothing yet": the next read opens it again. Below the log start
            // the messages are gone, even if a file of that name exists: a slow producer may have created it again, and no
            // producer will ever append to it.
            if (retention?.IsRemoved(start) ?? start < log.LogStart)
                throw new OffsetOutOfRangeException($"The messages at this offset were removed: offset={offset}, "
                    + $"logStart={log.LogStart}, path={log.Path}. Move with a seek, or open with OnOutOfRange.");
            if (segment is null)
                return false;
            // A file of the name may be that of another store in the same folder: a restored one of this log.
            if (!segment.IsOfThisStore)
                log.ThrowIfReplaced();
            isKept = segment.IsOfThisStore = true;
        }
        finally
        {
            // These looks may fail, for want of a descriptor. Nobody would unmap the segment then.
            if (!isKept && segment is not null)
                log.Window.Release(segment);
        }

        bool hasRolled = _segment is not null;
        LeaveSegment();
        _segment = segment;
        _askedFrom = _next = segment.Pointer + (offset - start);
        _addressToOffset = start - (long)segment.Pointer;
        if (hasRolled)
            retention?.NoticeRoll();
        return true;
    }

    /// <summary>
    /// The allocated bound may be stale, or damaged in the file: a pread past it, which touches no mapping, decides.
    /// </summary>
    private bool TryRaiseBound(SegmentMapping segment, long position)
    {
        log.ThrowIfReadingEnded(IsClosed);
        if (position + FrameHeader.Size > segment.Usable)
            throw LogErrors.Truncated(segment, segment.Start + position);
        long bound = Math.Min(log.Allocated - segment.Start, segment.Usable);
        if (bound < position + FrameHeader.Size)
        {
            ulong header = 0;
            int read = segment.File.ReadAt(new Span<byte>(&header, sizeof(ulong)), position);
            if (read < sizeof(ulong) || header == 0)
                return false;
            bound = segment.Usable;
        }

        if (confirmed != null)
        {
            // P18 acquire: everything before it is on disk; pairs with P18 full in FlushEngine.
            bound = Math.Min(bound, SharedWord.ReadAcquire(confirmed) - segment.Start);
            if (bound < position + FrameHeader.Size)
                return false;
        }

        _limit = segment.Pointer + bound;
        RaiseBound(segment, position, position + FrameHeader.Size);
        log.ThrowIfReadingEnded(IsClosed);
        return true;
    }

    /// <summary>Makes sure that the whole message of a header that was read can be read.</summary>
    private void ReachFrame(int length)
    {
        long frameLength = FrameHeader.FrameLength(length);
        if (_next + frameLength > _reach)
            RaiseBound(_segment!, _reach - _segment!.Pointer, _next - _segment.Pointer + frameLength);
    }

    /// <summary>
    /// Raises the bound by a step of pages. A page that the system cannot give is an exception here; at the load it would end
    /// the process. A page may leave memory again in between; docs/DESIGN.md describes the remaining cases.
    /// </summary>
    private void RaiseBound(SegmentMapping segment, long from, long needed)
    {
        long there = _steps.MakeReadable(segment, from, needed, _limit - segment.Pointer, log.WrittenTo);
        if (there < needed)
            throw LogErrors.Truncated(segment, Offset);
        SetBound(segment.Pointer + there);
    }

    /// <summary>Sets the bound for the fast paths too, unless the reader is closed or a wait owns it.</summary>
    private void SetBound(byte* bound)
    {
        _reach = bound;
        if (IsBarred)
            return;
        _bound = bound;
        Interlocked.MemoryBarrier(); // P7 full: bound before the load of the bars; pairs with P7 full in Close.
        if (IsBarred)
            _bound = null;
    }
}

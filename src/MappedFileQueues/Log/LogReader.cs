using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>What a look at the log found.</summary>
internal enum ReadStatus
{
    /// <summary>A whole, verified message is in hand.</summary>
    Message,

    /// <summary>Nothing is published here yet.</summary>
    Empty,

    /// <summary>A claimed frame stands here: its owner is writing, stopped, or dead.</summary>
    Hole,
}

/// <summary>
/// One reader's place in the log.
/// <code>
/// 1 load the header once (acquire); 0: nothing yet
/// 2 check state and length against the room that is left: what comes from the file is hostile
/// 3 verify the checksum, which covers the offset too
/// 4 hand out the payload; the place moves only by Advance
/// </code>
/// Its own bound stands for the end of the segment, for what is allocated (beyond it a load could fault on a full file system)
/// and for Dispose, and for a reader that reads only what is on disk the confirmed offset too. One thread at a time; Dispose may
/// come from any.
/// </summary>
/// <param name="log">What it reads.</param>
/// <param name="confirmed">The word that says up to where it reads; null for all that is published.</param>
internal sealed unsafe class LogReader(ILogView log, long* confirmed = null)
{
    private const int BarClosed = 1;
    private const int BarAwaited = 2;

    private readonly FrameChecksum _checksum = log.Checksum;
    private readonly bool _verifies = log.VerifiesChecksum;
    private readonly int _fixedLength = log.FixedLength;
    private byte* _next;
    private byte* _bound;
    private long _addressToOffset;
    private SegmentMapping? _segment;
    private long _inHand;
    private long _pendingOffset;
    private long _messageOffset = -1;
    private int _inCall;
    private int _bars;

    /// <summary>The offset of the message in hand, or else of the next one to read.</summary>
    public long Offset => _segment is null ? _pendingOffset : (long)_next + _addressToOffset;

    /// <summary>The offset behind the message in hand, or <see cref="Offset"/> when there is none.</summary>
    public long OffsetBehind => Offset + _inHand;

    /// <summary>Where the message that was read last began; -1 before the first.</summary>
    public long MessageOffset => _inHand != 0 ? Offset : _messageOffset;

    /// <summary>True between a read and the Advance or Commit that follows it.</summary>
    public bool HasMessage => _inHand != 0;

    /// <summary>True once the reader is closed, and while an asynchronous wait owns it: calls are refused.</summary>
    public bool IsBarred => Volatile.Read(ref _bars) != 0; // P7 acquire: pairs with P7 full in Close.

    public bool IsClosed => (Volatile.Read(ref _bars) & BarClosed) != 0; // P7 acquire: pairs with P7 full in Close.

    /// <summary>True while the thread of <see cref="AsyncWaiter"/> looks through this reader.</summary>
    public bool IsAwaited
    {
        // P7 full: calls of others are refused from here on; pairs with P7 acquire in IsBarred.
        set => _ = value ? Interlocked.Or(ref _bars, BarAwaited) : Interlocked.And(ref _bars, ~BarAwaited);
    }

    /// <summary>Marks a call, so that Dispose waits for it. A plain store: Dispose pays for the fence.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void EnterCall() =>
        Volatile.Write(ref _inCall, 1); // P7 release: before the bound or disposed is read; pairs with P7 full in Close.

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void LeaveCall() =>
        Volatile.Write(ref _inCall, 0); // P7 release: the mapping is not used after it; pairs with P7 acquire in Close.

    /// <summary>
    /// The fast path for messages of one size with a checksum: copies and verifies in one pass. False means: ask <see
    /// cref="TryRead"/>.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryCopyFixed(ref byte destination, int length)
    {
        byte* at = _next;
        long frameLength = FrameHeader.FrameLength(length);
        if (at + frameLength > _bound)
            return false;
        // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        ulong header = SharedWord.ReadAcquire((ulong*)at);
        uint low = (uint)header;
        if (_verifies)
        {
            bool isChecked = low == FrameHeader.LowHalf(length, FrameState.Published)
                || low == FrameHeader.LowHalf(length, FrameState.PublishedInBatch);
            if (!isChecked || !Verify(at, header, length))
                return false;
        }
        else if ((low & ~FrameHeader.StateMask) != (uint)length || !FrameHeader.IsMessage(FrameHeader.State(header)))
        {
            return false;
        }

        // One wide copy: the caller may load the message at any width, and a wide load over narrow stores would wait for them.
        Unsafe.CopyBlockUnaligned(ref destination, ref at[FrameHeader.Size], (uint)length);
        _inHand = frameLength;
        return true;
    }

    /// <summary>
    /// The fast path for messages of any length: verifies one where it lies. False means: ask <see cref="TryRead"/>.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryReadInPlace(out byte* payload, out int length)
    {
        byte* at = _next;
        payload = at + FrameHeader.Size;
        length = 0;
        if (payload > _bound)
            return false;
        // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        ulong header = SharedWord.ReadAcquire((ulong*)at);
        length = FrameHeader.Length(header);
        long frameLength = FrameHeader.FrameLength(length);
        bool isForeign = ((uint)header & FrameHeader.Extended) != 0 || (_fixedLength >= 0 && length != _fixedLength);
        if (isForeign || at + frameLength > _bound)
            return false;
        FrameState state = FrameHeader.State(header);
        if (state is FrameState.Published or FrameState.PublishedInBatch)
        {
            if (_verifies && !Verify(at, header, length))
                return false;
        }
        else if (state is not (FrameState.PublishedUnchecked or FrameState.PublishedInBatchUnchecked)
            || FrameHeader.HighHalf(header) != 0)
        {
            return false;
        }

        _inHand = frameLength;
        return true;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool Verify(byte* at, ulong header, int length)
    {
        uint crc = _checksum.Begin((long)at + _addressToOffset, (uint)header);
        return Crc32C.Append(crc, ref at[FrameHeader.Size], length) == FrameHeader.HighHalf(header);
    }

    /// <summary>Looks for the next message without waiting. The payload stays valid as the public API says.</summary>
    public ReadStatus TryRead(out byte* payload, out int length)
    {
        payload = null;
        length = 0;
        while (true)
        {
            if (!TryReachHeader(out long room))
                return ReadStatus.Empty;
            // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
            ulong header = SharedWord.ReadAcquire((ulong*)_next);
            if (header == 0)
                return ReadStatus.Empty;
            if (!FrameHeader.IsPlausible(header, room))
                throw log.Corrupt(Offset, header, room);
            FrameState state = FrameHeader.State(header);
            if (state == FrameState.Claimed)
                return ReadStatus.Hole;
            length = FrameHeader.Length(header);
            ThrowIfTruncated(length);
            if ((_verifies || state == FrameState.Padding) && !_checksum.Matches(header, Offset, ref _next[FrameHeader.Size]))
                throw log.Corrupt(Offset, header, room);
            if (state == FrameState.Padding)
            {
                _next += FrameHeader.FrameLength(length);
                continue;
            }

            log.ThrowIfWrongLength(length, Offset);
            _inHand = FrameHeader.FrameLength(length);
            payload = _next + FrameHeader.Size;
            return ReadStatus.Message;
        }
    }

    /// <summary>Whether a <see cref="TryRead"/> would find a message, a hole or damage: something to act on.</summary>
    public bool HasSomething()
    {
        if (!TryReachHeader(out _))
            return false;
        // P1 acquire: pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        return SharedWord.ReadAcquire((ulong*)_next) != 0;
    }

    /// <summary>The header that the next message will have, for a waiter to look at; null while it cannot be reached.</summary>
    public ulong* FreeHeader => _next + FrameHeader.Size <= _bound ? (ulong*)_next : null;

    /// <summary>Looks after the claim in the way; true when it no longer is.</summary>
    public bool TryRepairHole()
    {
        // P4 acquire: pairs with P2, P3 and P4 full in SharedAppender and HoleRepair.
        ulong claim = SharedWord.ReadAcquire((ulong*)_next);
        if (FrameHeader.State(claim) != FrameState.Claimed)
            return true;
        HoleFate fate = log.Repair((ulong*)_next, claim, Offset);
        if (fate == HoleFate.StepOver)
            _next += FrameHeader.FrameLength(FrameHeader.Length(claim));
        return fate != HoleFate.Living;
    }

    /// <summary>Goes on behind the message in hand, if there is one.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Advance()
    {
        if (_inHand == 0)
            return;
        _messageOffset = (long)_next + _addressToOffset;
        _next += _inHand;
        _inHand = 0;
    }

    /// <summary>As <see cref="Advance"/>, when a message is in hand; returns the offset of the next one.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public long AdvanceToNext()
    {
        long inHand = _inHand;
        if (inHand == 0)
            return Offset;
        long offset = (long)_next + _addressToOffset;
        _messageOffset = offset;
        _next += inHand;
        _inHand = 0;
        return offset + inHand;
    }

    /// <summary>The message in hand was not taken: nothing is in hand.</summary>
    public void PutBack() => _inHand = 0;

    /// <summary>Moves to a frame's start that the caller has verified.</summary>
    public void MoveTo(long offset)
    {
        Advance();
        ReleaseSegment();
        _pendingOffset = offset;
    }

    /// <summary>
    /// Refuses new calls and waits for the one under way.
    /// </summary>
    /// <param name="wake">Wakes a call that sleeps.</param>
    public void Close(Action wake)
    {
        Interlocked.Or(ref _bars, BarClosed); // P7 full: before the bound goes; pairs with P7 acquire in IsBarred.
        _bound = null;
        Interlocked.MemoryBarrierProcessWide(); // P7 full: bound away before the look; pairs with P7 release in EnterCall.
        wake();
        var spinner = new SpinWait();
        while (Volatile.Read(ref _inCall) != 0) // P7 acquire: the call's last use is over; pairs with P7 release in LeaveCall.
        {
            spinner.SpinOnce();
            if (spinner.NextSpinWillYield && spinner.Count % 64 == 0)
                wake();
        }
    }

    /// <summary>Gives the mapping back; spans into it end here.</summary>
    public void ReleaseSegment()
    {
        SegmentMapping? left = _segment;
        if (left is null)
            return;
        _pendingOffset = Offset;
        _segment = null;
        _next = null;
        _bound = null;
        log.Window.Release(left);
    }

    /// <summary>
    /// Sees to it that a header may be loaded at the place: inside a mapped segment, below what is allocated.
    /// </summary>
    private bool TryReachHeader(out long room)
    {
        while (true)
        {
            room = 0;
            if (_segment is null && !TryEnter(_pendingOffset))
                return false;
            SegmentMapping segment = _segment!;
            long position = _next - segment.Pointer;
            room = segment.SegmentLength - position;
            if (room == 0)
            {
                if (!TryEnter(segment.End))
                    return false;
                continue;
            }

            if (_next + FrameHeader.Size <= _bound)
                return true;
            if (!TryRaiseBound(segment, position))
                return false;
        }
    }

    private void ThrowIfTruncated(int length)
    {
        if (_next - _segment!.Pointer + FrameHeader.FrameLength(length) > _segment.Usable)
            throw log.Truncated(_segment, Offset);
    }

    private bool TryEnter(long offset)
    {
        log.ThrowIfReadingEnded(this);
        long start = log.Window.StartOf(offset);
        SegmentMapping? segment = log.Window.TryAcquire(start);
        // At or above low water a missing segment means "nothing yet": the next look opens again. Below it the messages are
        // gone, also when a file of that name is there: a slow producer may have made it anew, and nobody will ever append to it.
        bool isGone = start < log.LowWater;
        if (segment is null || isGone)
        {
            if (segment is not null)
                log.Window.Release(segment);
            if (isGone)
                throw new OffsetOutOfRangeException($"The messages at this offset were removed: offset={offset}, "
                    + $"first={log.LowWater}, path={log.Path}. Move the consumer with SeekToStart or AdjustOffset.");
            return false;
        }

        ReleaseSegment();
        _segment = segment;
        _next = segment.Pointer + (offset - start);
        _addressToOffset = start - (long)segment.Pointer;
        _bound = segment.Pointer;
        return true;
    }

    /// <summary>
    /// The allocated bound may be stale, or damaged in the file: a look past it by pread, which touches no mapping, decides.
    /// </summary>
    private bool TryRaiseBound(SegmentMapping segment, long position)
    {
        log.ThrowIfReadingEnded(this);
        if (position + FrameHeader.Size > segment.Usable)
            throw log.Truncated(segment, segment.Start + position);
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
            // P18 acquire: what lies before it is on disk; pairs with P18 full in LogFlusher.
            bound = Math.Min(bound, SharedWord.ReadAcquire(confirmed) - segment.Start);
            if (bound < position + FrameHeader.Size)
                return false;
        }

        _bound = segment.Pointer + bound;
        Interlocked.MemoryBarrier(); // P7 full: bound before the look at closed; pairs with P7 full in Close.
        if (IsClosed)
            _bound = null;
        log.ThrowIfReadingEnded(this);
        return true;
    }
}

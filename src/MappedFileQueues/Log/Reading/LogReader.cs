using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics.X86;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Reading;

/// <summary>The result of a read.</summary>
internal enum ReadStatus
{
    /// <summary>A whole, verified message is in hand.</summary>
    Message,

    /// <summary>Nothing is published here yet.</summary>
    Empty,

    /// <summary>A claimed frame is here: its owner is writing, stopped, or dead.</summary>
    Claim,
}

/// <summary>
/// One reader's position in the log.
/// <code>
/// 1 load the header once (acquire); 0: nothing yet
/// 2 check state and length against the room that is left: content of the file is hostile
/// 3 verify the checksum, which covers the offset too
/// 4 hand out the payload; only Advance moves the position
/// </code>
/// The reader's bound stands for several limits: the end of the segment; what is allocated (beyond it a load could fault on a
/// full file system); the pages that the system was asked for (a load from a bad sector would end the process); Dispose; and an
/// asynchronous wait that owns the reader. That wait reads below <see cref="_reach"/>, which the fast paths do not use. For a
/// reader that sees only what is on disk, the bound stands for the durable offset too. One thread at a time may use it; Dispose
/// may come from any thread.
/// </summary>
/// <param name="log">The log that it reads.</param>
/// <param name="confirmed">The word that holds the end of what it may read; null for everything that is published.</param>
/// <param name="skipper">Steps over damage; null for a reader that throws at damage.</param>
/// <param name="gaps">Steps over what was removed; null for a reader that throws there.</param>
/// <param name="retention">This queue's retention; null for a reader that leaves no trace.</param>
/// <param name="readsHeaders">It only finds where messages are: nothing is verified but headers and padding.</param>
internal sealed unsafe partial class LogReader(
    LogView log,
    long* confirmed = null,
    DamageSkipper? skipper = null,
    GapSkipper? gaps = null,
    RetentionThread? retention = null,
    bool readsHeaders = false) : SingleCaller
{
    private const int CacheLine = 64;
    private const int PrefetchMax = 16 * 1024;
    private const int BarClosed = 1;
    private const int BarAwaited = 2;

    private readonly FrameChecksum _checksum = log.Checksum;
    private readonly bool _verifies = log.VerifiesChecksum && !readsHeaders;
    private readonly int _fixedLength = log.FixedLength;

    /// <summary>The message in hand, otherwise the place of the next one.</summary>
    private byte* _next;

    /// <summary>
    /// The length of the frame in hand; 0: none. Not its end: what the next read waits for would go through memory twice.
    /// </summary>
    private long _inHand;

    /// <summary>The first word of the last header block.</summary>
    private ulong _knownBlock = HeaderBlock.Possible;

    /// <summary>The message of this segment that was passed last; null when there is none.</summary>
    private byte* _passed;

    private byte* _bound;
    private byte* _reach;
    private byte* _limit;

    /// <summary>What an address of the mapping has to be added to. Without a segment the addresses are 0, and this is the offset.
    /// </summary>
    private long _addressToOffset;
    private PageSteps _steps = new(PageSteps.ForReading);
    private SegmentMapping? _segment;
    private SegmentMapping? _segmentOfSpan;
    private long _messageOffset = -1;
    private CallMark? _spanOwner;

    /// <summary>The offset of the message in hand, otherwise of the next one to read.</summary>
    public long Offset => (long)_next + _addressToOffset;

    /// <summary>The offset after the message in hand, or <see cref="Offset"/> when there is none.</summary>
    public long NextOffset => Offset + _inHand;

    /// <summary>The offset of the message that was read last; -1 before the first.</summary>
    public long MessageOffset =>
        HasMessage ? Offset : _passed is null ? _messageOffset : (long)_passed + _addressToOffset;

    /// <summary>True between a read and the Advance or Commit that follows it.</summary>
    public bool HasMessage => _inHand != 0;

    /// <summary>True while another thread may still hold a message as a span.</summary>
    private bool MayHaveSpanOfOther
    {
        get
        {
            byte here;
            return (HasMessage || _segmentOfSpan is not null) && _spanOwner is { Thread.IsAlive: true } owner
                && !owner.IsOf(&here);
        }
    }

    public bool IsClosed => HasBar(BarClosed);

    /// <summary>
    /// True while the thread of <see cref="AsyncWaiter"/> reads through this reader. Setting it also takes away the bound.
    /// </summary>
    public bool IsAwaited
    {
        set
        {
            ChangeBar(BarAwaited, value);
            if (value)
                _bound = null;
        }
    }

    /// <summary>Marks a call, so that Dispose waits for it and no other thread comes in between.</summary>
    /// <exception cref="InvalidOperationException">Another thread is in a call.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public void BeginCall()
    {
        byte here;
        if (!TryBegin(&here, out _))
            TakeOver(&here);
    }

    /// <summary>Like <see cref="BeginCall"/>; the call lasts as long as what this returns.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public Call EnterCall()
    {
        BeginCall();
        return new Call(this, isLong: false);
    }

    /// <summary>Like <see cref="BeginLongCall"/>; the call lasts as long as what this returns.</summary>
    public Call EnterLongCall()
    {
        BeginLongCall();
        return new Call(this, isLong: true);
    }

    /// <summary>Like <see cref="BeginCall"/>, for calls that end in <see cref="EndCallIfBegun"/>.</summary>
    public void BeginLongCall()
    {
        BeginCall();
        TakeFromEnded();
    }

    /// <summary>
    /// Like <see cref="SingleCaller.EndCall"/>, for calls that may have called a damage handler. The handler runs outside the
    /// call. Another thread's call may be under way afterwards, and then this call ends there.
    /// </summary>
    public void EndCallIfBegun()
    {
        byte here;
        EndIfBegun(&here);
    }

    /// <summary>False if another thread's call came in between while a damage handler ran.</summary>
    public bool IsInOwnCall
    {
        get
        {
            byte here;
            return IsOwnCallUnderWay(&here);
        }
    }

    /// <summary>
    /// The message of this call goes to this thread as a span or reference into the mapping. A Dispose on another thread, which
    /// waits for the call, must know this.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void NoteSpan()
    {
        TakeFromEnded();
        // Stored only when it changes: a store of a reference costs the collector's mark.
        if (_spanOwner != Owner)
            _spanOwner = Owner;
    }

    /// <summary>
    /// A whole call for the fast path: copies the next message. When it returns false, the call is still under way:
    /// <see cref="TryEndByCopy"/> ends it, and the slow path begins another one.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public bool TryCopyInCall<T>(out T message)
        where T : unmanaged
    {
        Unsafe.SkipInit(out message);
        byte here;
        if (!TryBegin(&here, out CallMark mark))
        {
            TakeOver(&here);
            return false;
        }

        if (!TryCopyFixed(ref Unsafe.As<T, byte>(ref message), Unsafe.SizeOf<T>()))
            return false;
        mark.End();
        return true;
    }

    /// <summary>Like <see cref="TryCopyInCall"/>, for a message that is given out in place.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public bool TryGetInCall(out byte* payload, out int length)
    {
        payload = null;
        length = 0;
        byte here;
        if (!TryBegin(&here, out _))
        {
            TakeOver(&here);
            return false;
        }

        if (!TryReadInPlace(out payload, out length))
            return false;

        // Not earlier: a closed reader may still keep a message for the thread that read it last.
        NoteSpan();
        EndCall();
        return true;
    }

    /// <summary>
    /// Ends the call of <see cref="TryCopyInCall"/> that has found nothing; copies a message with a header block. It is tried
    /// here, so that other messages pay nothing.
    /// </summary>
    public bool TryEndByCopy<T>(out T message)
        where T : unmanaged
    {
        Unsafe.SkipInit(out message);
        bool found = TryCopyExtended(ref Unsafe.As<T, byte>(ref message), Unsafe.SizeOf<T>());
        EndCall();
        return found;
    }

    /// <summary>As <see cref="TryEndByCopy"/>, for <see cref="TryGetInCall"/>.</summary>
    public bool TryEndByGet(out byte* payload, out int length)
    {
        bool found = TryReadExtended(out payload, out length);
        if (found)
            NoteSpan();
        EndCall();
        return found;
    }

    /// <summary>
    /// Makes the stack known from where the fast path is called. The slow path, which continues, is deeper: from there, the
    /// part of the stack that is known would end below the fast path, and each further call would be a slow one.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public void TakeOverHere(byte* stack)
    {
        TakeOver(stack);
        EndCall();
    }

    /// <summary>This thread's span was copied. Another thread may have read since then, and holds its own.</summary>
    public void ForgetSpan()
    {
        BeginCall();
        if (_spanOwner == Owner)
            _spanOwner = null;
        if (IsClosed)
            ReleaseOrphan();
        EndCall();
    }

    /// <summary>
    /// The fast path for messages of one size: copies and verifies in one pass. When it returns false, use
    /// <see cref="TryRead"/>; what was copied until then is not verified.
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
        if (low != FrameHeader.LowHalf(length, FrameState.Published)
            && low != FrameHeader.LowHalf(length, FrameState.PublishedInBatch))
            return false;

        // One wide copy: the caller may load the message at any width, and a wide load over narrow stores would wait for them.
        // Before the checksum, whose steps wait for each other: a consume and commit of 64 bytes takes a twentieth less.
        Unsafe.CopyBlockUnaligned(ref destination, ref at[FrameHeader.Size], (uint)length);
        if (_verifies)
        {
            uint crc = _checksum.Begin((long)at + _addressToOffset, low);
            if (Crc32C.AppendKnown(crc, ref at[FrameHeader.Size], length) != FrameHeader.HighHalf(header))
                return false;
        }

        _inHand = frameLength;
        return true;
    }

    /// <summary>
    /// The fast path for messages of any length: verifies one in place. When it returns false, use <see cref="TryRead"/>.
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
        if (length > Crc32C.ShortMax)
        {
            length = ReadLong();
            payload = _next + FrameHeader.Size;
            return length >= 0;
        }

        long frameLength = FrameHeader.FrameLength(length);
        if (at + frameLength > _bound || (_fixedLength >= 0 && length != _fixedLength))
            return false;
        // With a bit for what this version does not know: then it is none of these.
        uint state = (uint)header & (FrameHeader.StateMask | FrameHeader.Extended);
        if (state != FrameHeader.LowHalf(0, FrameState.Published) && state != FrameHeader.LowHalf(0, FrameState.PublishedInBatch))
            return false;
        if (_verifies && !Verify(at, header, length, isShort: true))
            return false;

        _inHand = frameLength;
        return true;
    }

    /// <summary>
    /// As <see cref="TryReadInPlace"/>, for a long message: returns its length, or -1. Nothing but the reader has to be kept
    /// across the call, which costs the short ones a comparison only.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private int ReadLong()
    {
        byte* at = _next;
        // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        ulong header = SharedWord.ReadAcquire((ulong*)at);
        int length = FrameHeader.Length(header);
        long frameLength = FrameHeader.FrameLength(length);
        if (at + frameLength > _bound || (_fixedLength >= 0 && length != _fixedLength)
            || FrameHeader.IsExtended(header) || !FrameHeader.IsMessage(FrameHeader.State(header))
            || (_verifies && !Verify(at, header, length)))
            return -1;
        _inHand = frameLength;
        return length;
    }

    /// <summary>
    /// As <see cref="TryCopyFixed"/>, for a message with a header block. Comes after that: when this returns false too, what that
    /// has copied and not verified is cleared.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryCopyExtended(ref byte destination, int length)
    {
        if (!TryReadExtended(out byte* payload, out int found) || found != length)
        {
            Unsafe.InitBlockUnaligned(ref destination, 0, (uint)length);
            return false;
        }

        Unsafe.CopyBlockUnaligned(ref destination, ref *payload, (uint)length);
        return true;
    }

    /// <summary>As <see cref="TryReadInPlace"/>, for a message with a header block.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryReadExtended(out byte* payload, out int length)
    {
        byte* at = _next;
        payload = at + FrameHeader.Size;
        length = 0;
        if (payload > _bound)
            return false;
        // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        ulong header = SharedWord.ReadAcquire((ulong*)at);
        int whole = FrameHeader.Length(header);
        long frameLength = FrameHeader.FrameLength(whole);
        if (!FrameHeader.IsExtended(header) || !FrameHeader.IsMessage(FrameHeader.State(header)) || at + frameLength > _bound
            || (_verifies && !Verify(at, header, whole))
            || !HeaderBlock.TryGetLength(ref *payload, whole, ref _knownBlock, out int block)
            || (_fixedLength >= 0 && whole - block != _fixedLength))
            return false;
        payload += block;
        length = whole - block;
        _inHand = frameLength;
        return true;
    }

    /// <summary>The header block of the message in hand, in the mapping; empty when it has none.</summary>
    /// <param name="name">The reader's name for users.</param>
    public ReadOnlySpan<byte> GetHeaderBlock(string name)
    {
        using Call call = EnterLongCall();
        ThrowIfBarred(name);
        NoteSpan();
        return HeaderBlockInHand;
    }

    /// <summary>A copy of the headers of the message in hand; null when there are none.</summary>
    /// <param name="name">The reader's name for users.</param>
    public MessageHeaders? CopyHeaders(string name)
    {
        using Call call = EnterLongCall();
        ThrowIfBarred(name);
        return CopyHeaders();
    }

    /// <summary>In a call.</summary>
    private ReadOnlySpan<byte> HeaderBlockInHand
    {
        get
        {
            // A plain load: the message was read before.
            if (_inHand == 0 || !FrameHeader.IsExtended(*(ulong*)_next))
                return default;
            byte* block = _next + FrameHeader.Size;
            // The frame in hand was read: the block is within it, whatever its header says now.
            return HeaderBlock.TryGetLength(ref *block, (int)(_inHand - FrameHeader.Size), out int length)
                ? new ReadOnlySpan<byte>(block, length)
                : default;
        }
    }

    /// <summary>A copy of the headers of the message in hand; null when there are none. In a call.</summary>
    public MessageHeaders? CopyHeaders()
    {
        var view = new MessageHeadersView(HeaderBlockInHand);
        return view.IsEmpty ? null : view.ToHeaders();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool Verify(byte* at, ulong header, int length, bool isShort = false)
    {
        uint crc = _checksum.Begin((long)at + _addressToOffset, (uint)header);
        ref byte payload = ref at[FrameHeader.Size];
        crc = isShort ? Crc32C.AppendShort(crc, ref payload, length) : Crc32C.Append(crc, ref payload, length);
        return crc == FrameHeader.HighHalf(header);
    }

    /// <summary>Reads the next message without waiting. The payload stays valid as the public API promises.</summary>
    public ReadStatus TryRead(out byte* payload, out int length) =>
        Skips ? ReadOver(out payload, out length) : Read(out payload, out length);

    private ReadStatus Read(out byte* payload, out int length)
    {
        payload = null;
        length = 0;
        bool wasPassed = false;
        while (true)
        {
            // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
            ulong header = TryReachHeader(out long room) ? SharedWord.ReadAcquire((ulong*)_next) : 0;
            if (header == 0)
            {
                if (!IsPassed)
                    return ReadStatus.Empty;
                // It may have been published between the two loads; if the next load does not see it, it is lost.
                if (wasPassed)
                {
                    log.ThrowIfReplaced();
                    throw room == 0
                        ? LogErrors.Missing(log.Path, log.Window.StartOf(Offset), Offset)
                        : log.Corrupt(Offset, header);
                }

                wasPassed = true;
                continue;
            }

            if (!FrameHeader.IsPlausible(header, room))
                throw log.Corrupt(Offset, header);
            FrameState state = FrameHeader.State(header);
            if (state == FrameState.Claimed)
                return log.IsDamage((ulong*)_next, header, Offset) ? throw log.Corrupt(Offset, header) : ReadStatus.Claim;
            length = FrameHeader.Length(header);
            ThrowIfTruncated(length);
            if (state != FrameState.Padding)
                ReachFrame(length);
            if ((_verifies || state == FrameState.Padding) && !_checksum.Matches(header, Offset, ref _next[FrameHeader.Size]))
                throw log.Corrupt(Offset, header);
            if (state == FrameState.Padding)
            {
                _next += FrameHeader.FrameLength(length);
                wasPassed = false;
                continue;
            }

            long frameLength = FrameHeader.FrameLength(length);
            payload = _next + FrameHeader.Size;
            if (FrameHeader.IsExtended(header))
            {
                if (!HeaderBlock.TryGetLength(ref *payload, length, out int block))
                    throw log.Corrupt(Offset, header);
                payload += block;
                length -= block;
            }

            log.ThrowIfWrongLength(length, Offset);
            _inHand = frameLength;
            return ReadStatus.Message;
        }
    }

    /// <summary>True if a <see cref="TryRead"/> would find a message, a hole or damage: something to act on.</summary>
    public bool HasSomething() => Skips ? HasSomethingOrNeedsToSkip() : IsSomethingHere();

    private bool IsSomethingHere()
    {
        // P1 acquire: pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
        return (TryReachHeader(out _) && SharedWord.ReadAcquire((ulong*)_next) != 0) || IsPassed;
    }

    /// <summary>
    /// True if the log continues here, so that a zero header is damage. Messages that are not on disk yet do not count.
    /// </summary>
    // P18 acquire: pairs with P18 full in FlushEngine.
    private bool IsPassed => (confirmed == null || Offset < SharedWord.ReadAcquire(confirmed)) && log.HasPassed(Offset);

    /// <summary>Repairs the claim in the way if its owner is dead; true when no claim is in the way any longer.</summary>
    public bool TryRepairClaim()
    {
        // A wait may come here because the log continues, before its position was reached: for example at the end of a segment.
        // The read reports a position that cannot be reached.
        if (!TryReachHeaderOrGap())
            return true;
        // P4 acquire: pairs with P2, P3 and P4 full in SharedAppender and ClaimRepair.
        ulong claim = SharedWord.ReadAcquire((ulong*)_next);
        if (FrameHeader.State(claim) != FrameState.Claimed)
            return true;
        ClaimFate fate = log.Repair((ulong*)_next, claim, Offset);
        if (fate == ClaimFate.StepOver)
            _next += FrameHeader.FrameLength(FrameHeader.Length(claim));
        return fate != ClaimFate.Living;
    }

    /// <summary>Moves past the message in hand, if there is one; returns the offset of the next one.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public long Advance()
    {
        byte* next = _next;
        long inHand = _inHand;
        if (inHand != 0)
        {
            _passed = next;
            next += inHand;
            _next = next;
            _inHand = 0;
        }

        return (long)next + _addressToOffset;
    }

    /// <summary>
    /// As <see cref="Advance"/>, and moves past the messages after it that are as long; returns how many those are. Where the
    /// next header is does not come from the last one, which is on its way from memory: the processor loads several at once.
    /// </summary>
    /// <param name="offsets">Receives their offsets.</param>
    public int AdvanceAlike(Span<long> offsets)
    {
        Debug.Assert(HasMessage, "Its length is that of the others.");
        long frameLength = _inHand;
        byte* next = (byte*)(Advance() - _addressToOffset);
        // A plain load: the message was read before.
        uint alike = (uint)*(ulong*)(next - frameLength);
        int count = 0;
        // A header block is looked at by itself.
        if ((alike & FrameHeader.Extended) != 0)
            return 0;
        while (count < offsets.Length && next + frameLength <= _bound
            // P1 acquire: the payload is whole; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
            && (uint)SharedWord.ReadAcquire((ulong*)next) == alike)
        {
            offsets[count++] = (long)next + _addressToOffset;
            _passed = next;
            _next = next += frameLength;
        }

        return count;
    }

    /// <summary>Asks the processor to load a range of this segment, 16 KiB at most, into its cache; only a hint.</summary>
    public void Prefetch(long offset, long length)
    {
        if (!Sse.IsSupported)
            return;
        byte* at = (byte*)(offset - _addressToOffset);
        byte* end = (byte*)Math.Min((long)at + Math.Min(length, PrefetchMax), (long)_bound);
        for (; at < end; at += CacheLine)
            Sse.Prefetch0(at);
    }

    /// <summary>The message in hand was not taken: nothing is in hand any longer.</summary>
    public void PutBack() => _inHand = 0;

    private void ThrowIfTruncated(int length)
    {
        if (_next - _segment!.Pointer + FrameHeader.FrameLength(length) > _segment.Usable)
            throw LogErrors.Truncated(_segment, Offset);
    }

    /// <summary>A call under way.</summary>
    public readonly struct Call(LogReader reader, bool isLong) : IDisposable
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        public void Dispose()
        {
            if (isLong)
                reader.EndCallIfBegun();
            else
                reader.EndCall();
        }
    }
}

using MappedFileQueues.Log.Store;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// One thread's place in the log: where it will try its next frame, and the one private bound against which the append path
/// compares. The bound stands for the end of the segment, for what is allocated, for an open claim, for consumers that are too
/// far behind, and for a disposed producer; it is null whenever the rare path has something to do. An open claim is a call that
/// continues (<see cref="SingleCaller"/>).
/// <para>Only its own thread moves a lane; the lane of an Exclusive producer belongs to the thread that called last. Dispose
/// takes the bound away and, after a process-wide barrier, waits until no call is marked: either that thread's mark is visible
/// then, or the thread finds the bound gone.</para>
/// </summary>
/// <param name="appender">The appender that it belongs to.</param>
/// <param name="thread">Its thread; null in Exclusive mode, where callers take turns.</param>
/// <param name="lookWhileWaiting">Called while its thread waits for another process; throws when its producer ends.</param>
/// <param name="mayHaveBound">False where each publish needs a barrier: without a bound every append takes the rare path, which
/// has one.</param>
internal sealed unsafe class AppendLane(
    object appender, Thread? thread, Action? lookWhileWaiting = null, bool mayHaveBound = true) : SingleCaller
{
    /// <summary>Where the next header goes.</summary>
    public byte* Next;

    /// <summary>A frame may end, and the header after it begin, only below this address.</summary>
    public byte* Bound;

    /// <summary>The difference from an address in the mapping to its offset.</summary>
    public long AddressToOffset;

    /// <summary>The segment that <see cref="Next"/> points into; this lane holds a reference on it.</summary>
    public SegmentMapping? Segment;

    /// <summary>Replaces the open claim's number: a Dispose took the claim away, and no other will be opened.</summary>
    private const int Fenced = -1;

    private int _openClaim;
    private int _claimCount;

    /// <summary>True while a claim of this thread is open.</summary>
    public bool HasOpenClaim => Volatile.Read(ref _openClaim) > 0; // P7 acquire: pairs with P7 full in TryEndClaim.

    /// <summary>A Dispose took the last claim away.</summary>
    public bool IsFenced => Volatile.Read(ref _openClaim) == Fenced; // P7 acquire: pairs with P7 full in TryFenceClaim.

    /// <summary>The number of the open claim, or of the last one: a copy of an older claim must not end it.</summary>
    public int ClaimNumber => _claimCount;

    /// <summary>The thread that opened the claim.</summary>
    public Thread? ClaimThread;

    /// <summary>The open claim's thread has ended without ending the claim: nobody else will.</summary>
    public bool HasLostClaim => HasOpenClaim && ClaimThread is { IsAlive: false };

    /// <summary>The header value of the open claim (Shared).</summary>
    public ulong Claim;

    /// <summary>The length of the open claim's frame in bytes.</summary>
    public long ClaimLength;

    /// <summary>The length of the header block that the open claim begins with.</summary>
    public int BlockLength;

    /// <summary>Exclusive: the highest offset that may hold bytes that were never published.</summary>
    public long DirtyTo;

    /// <summary>Pages of <see cref="Segment"/> before this offset are known to be writable.</summary>
    public long WritableTo;

    /// <summary>The lane notifies the preparer again when it reaches this offset.</summary>
    public long NoticeFrom;

    /// <summary>No frame of this lane may end beyond it: consumers are too far behind.</summary>
    public long Ceiling;

    /// <summary>The ceiling is looked up again when the lane reaches this offset.</summary>
    public long CeilingUntil;

    /// <summary>How often its thread had to look for it (Shared).</summary>
    public uint Lookups;

    /// <summary>The appender that this lane belongs to.</summary>
    public object Appender => appender;

    /// <summary>Called while this lane's thread waits for another process; throws when its producer ends.</summary>
    public Action? LookWhileWaiting => lookWhileWaiting;

    /// <summary>False where each publish needs a barrier.</summary>
    public bool MayHaveBound => mayHaveBound;

    /// <summary>The lane's thread; null in Exclusive mode, where callers take turns.</summary>
    public Thread? Thread => thread;

    /// <summary>Exclusive: the tail was found; from now on no other producer may write at <see cref="Next"/>.</summary>
    public bool HasStarted;

    /// <summary>True for the one lane of an Exclusive producer.</summary>
    public bool IsExclusive => thread is null;

    /// <summary>The offset of <see cref="Next"/>.</summary>
    public long Offset => (long)Next + AddressToOffset;

    /// <summary>The position of <see cref="Next"/> in its segment.</summary>
    public long Position => Next - Segment!.Pointer;

    /// <summary>Numbers and opens a claim.</summary>
    public void BeginClaim()
    {
        _claimCount = _claimCount == int.MaxValue ? 1 : _claimCount + 1;
        Volatile.Write(ref _openClaim, _claimCount); // P7 release: pairs with P7 acquire in HasOpenClaim.
    }

    /// <summary>
    /// Ends the claim with that number; false when it is not open: ended before, or fenced. Of two callers one succeeds.
    /// </summary>
    // P7 full: the caller that ends the claim may write its header; pairs with P7 acquire in HasOpenClaim.
    public bool TryEndClaim(int number) => Interlocked.CompareExchange(ref _openClaim, 0, number) == number;

    /// <summary>Takes the open claim away for good; false when its thread has just ended it.</summary>
    public bool TryFenceClaim()
    {
        int open = Volatile.Read(ref _openClaim); // P7 acquire: pairs with P7 release in BeginClaim.
        // P7 full: the caller that ends the claim may write its header; pairs with P7 acquire in HasOpenClaim.
        return open > 0 && Interlocked.CompareExchange(ref _openClaim, Fenced, open) == open;
    }

    /// <summary>Moves to a position of a segment; the lane takes over the caller's reference.</summary>
    public void MoveTo(SegmentMapping segment, long position)
    {
        Segment = segment;
        Next = segment.Pointer + position;
        AddressToOffset = segment.Start - (long)segment.Pointer;
    }
}

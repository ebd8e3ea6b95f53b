using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Appends beside any number of threads and processes. Each thread walks from its own last place over the others' frames, whose
/// lengths are known even while they are claimed; no shared tail word is written per message.
/// <code>
/// 1 claim: compare-and-swap the header from 0 to length + claimed + own slot and generation
///                                            crash: the claim is found dead and becomes padding
/// 2 payload                                  crash: the same
/// 3 publish: compare-and-swap from exactly the claimed value (a full barrier); it fails when the claim was
///   taken away: then nothing of the message is visible, and Produce throws  crash: the message is there
/// 4 read the waiters' flag                   crash before waking: the flag stays up for the next publisher
/// </code>
/// <para>A header that damage has zeroed looks free, and a claim there would overwrite what was published after it. A lane that
/// follows its own appends cannot meet one; a lane that was idle while others wrote can. The common path does not check. So a
/// thread that finds an idle lane takes its bound away: the lane's own thread when it wakes a sleeper, as the last message
/// before a pause does, and the flushing thread when what it has confirmed is above the lane. On the rare path, and behind
/// others' frames, a place is free only when no walker and no flush has passed it, by the tail hint and by the durable offset,
/// and when the word after it is zero too (<see cref="IsBlank"/>).</para>
/// </summary>
internal sealed unsafe class SharedAppender : LogAppender
{
    /// <summary>
    /// About 4 us, in which the other producer appends some hundred messages alone. Together the two would append a few, each at
    /// the cost of moving a cache line from one processor to the other. A third of this wait gained less, and three times as much
    /// gained no more (measured).
    /// </summary>
    private const int GiveWaySpins = 100;

    [ThreadStatic]
    private static AppendLane?[]? t_lanes;

    /// <summary>How many appends that look for their lane by thread pass until that lane becomes the likely one.</summary>
    private const int LookupsPerChange = 1024;

    private readonly Lock _lock = new();
    private readonly List<AppendLane> _lanes = [];
    private readonly int _id = AppenderIds.Take();
    private readonly uint _owner;

    /// <summary>
    /// The lane of the thread that appends most. Its stack tells whether it is the caller's: asking the runtime for the thread's
    /// own lane is a chain of loads that begins only after the last append's exchange (2 to 4 ns).
    /// </summary>
    private AppendLane? _likely;

    public SharedAppender(LogStore store, FlushEngine flusher, SegmentRoller roller, OwnerSlot slot)
        : base(store, flusher, roller) => _owner = slot.Owner;

    public override long TailOffset
    {
        get
        {
            AppendLane lane = OwnLane();
            if (lane.HasOpenClaim)
                return lane.Offset;
            BeginCall(lane, FrameHeader.Size);
            long offset = lane.Offset;
            EndCall(lane);
            return offset;
        }
    }

    public override long TryAppend(ReadOnlySpan<byte> block, ReadOnlySpan<byte> message) =>
        Append(ref MemoryMarshal.GetReference(message), message.Length, block: block);

    /// <summary>The thread has a lane of its own.</summary>
    public override bool TryAppendForWaiting(WaitingMessages messages, out long offset)
    {
        offset = messages.AppendTo(this);
        return true;
    }

    /// <summary>Appends one message; returns its offset, or <see cref="LogAppender.Full"/>. Any thread.</summary>
    /// <param name="payload">The message.</param>
    /// <param name="length">Its length.</param>
    /// <param name="isKnown">The length is constant at the call site.</param>
    /// <param name="block">The message's header block; nothing is left of it at a call site without one.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public long Append(ref byte payload, int length, bool isKnown = false, ReadOnlySpan<byte> block = default)
    {
        byte here;
        AppendLane? lane = _likely;
        if (lane is null || !lane.Owner.HasStack(&here))
            lane = LaneByThread(&here);
        lane.BeginAsOnlyThread();
        byte* at = lane.Next;
        byte* end = at + FrameHeader.FrameLength(length) + block.Length;
        ulong claim = FrameHeader.Make(FrameHeader.LowHalf(length + block.Length, FrameState.Claimed), _owner);
        // P4 acquire: the load before the exchange avoids taking a line from a neighbour in vain; pairs with P3 full in Publish.
        // P2 full: from free to claimed; pairs with P4 acquire in SegmentRoller and LogReader.
        if (end + FrameHeader.Size > lane.Bound || (uint)(length + block.Length) > LengthMaxAtOnce(isKnown)
            || SharedWord.ReadAcquire((ulong*)at) != 0 || !SharedWord.CompareExchange((ulong*)at, 0, claim))
            return AppendContended(lane, ref payload, length, block);
        return WriteClaimed(lane, at, claim, ref payload, length, block, isKnown, isShort: true);
    }

    public override AppendLane? Claim(int payloadLength)
    {
        ThrowIfTooLong(payloadLength);
        AppendLane lane = OwnLane();
        long frameLength = FrameHeader.FrameLength(payloadLength);
        return TryClaimFrames(lane, frameLength) ? OpenClaim(lane, frameLength) : null;
    }

    public override long PublishClaim(AppendLane lane, int messageLength)
    {
        long offset = lane.Offset;
        long used = FrameHeader.FrameLength(messageLength) + lane.BlockLength;
        // The rest of the claim becomes a padding frame of its own before the first header is published.
        if (used < lane.ClaimLength)
            *(ulong*)(lane.Next + used) = Checksum.PaddingHeader(offset + used, lane.ClaimLength - used);
        ulong header = SealPayload(lane.Next, offset, lane.BlockLength, messageLength);
        Publish(lane, header, lane.ClaimLength);
        return offset;
    }

    public override void AbandonClaim(AppendLane lane)
    {
        Store.Claims.Abandon((ulong*)lane.Next, lane.Claim, lane.Offset);
        EndCall(lane);
    }

    public override bool TryLeaveClean()
    {
        lock (_lock)
        {
            foreach (AppendLane lane in _lanes)
                Roller.Unmap(lane);
            _lanes.Clear();
        }

        AppenderIds.Return(_id);
        return true;
    }

    protected override AppendLane? FindLaneOfOwnClaim() => FindOwnLane() is { HasOpenClaim: true } lane ? lane : null;

    protected override IReadOnlyList<AppendLane> Lanes()
    {
        lock (_lock)
            return [.. _lanes];
    }

    protected override void PadFencedClaim(AppendLane lane) =>
        Store.Claims.Abandon((ulong*)lane.Next, lane.Claim, lane.Offset);

    /// <summary>This thread's lane, if it has one already.</summary>
    private AppendLane? FindOwnLane() =>
        t_lanes is { } lanes && _id < lanes.Length && lanes[_id] is { } lane && lane.Appender == this ? lane : null;

    /// <summary>
    /// Walks over others' frames below the bound until a claim succeeds. Two producers at full speed meet here at every message,
    /// and each message then costs the round trip of a cache line between processors. So a thread that meets a frame being
    /// written gives way once: the other appends some hundred messages alone, and the walk over them afterwards costs a fraction
    /// of that (measured: 1.3 to 1.7 times the messages of both together).
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private long AppendContended(AppendLane lane, ref byte payload, int length, ReadOnlySpan<byte> block)
    {
        lane = TakeOwn(lane);
        byte* at = lane.Next;
        long frameLength = FrameHeader.FrameLength(length) + block.Length;
        ulong claim = FrameHeader.Make(FrameHeader.LowHalf(length + block.Length, FrameState.Claimed), _owner);
        bool hasGivenWay = false;
        while ((uint)(length + block.Length) <= FrameHeader.PayloadLengthMax && at + frameLength + FrameHeader.Size <= lane.Bound)
        {
            // P4 acquire: free, or a frame whose length is known; pairs with P2 full in Append and P3 full in Publish.
            ulong header = SharedWord.ReadAcquire((ulong*)at);
            // The rare path decides: it is either damage, or a place that another producer has claimed meanwhile.
            if (header == 0 && ((long)at + lane.AddressToOffset < Store.PassedTo || !IsBlank(lane, at)))
                break;
            // P2 full: from free to claimed; pairs with P4 acquire in SegmentRoller and LogReader.
            if (header == 0 && (header = SharedWord.CompareExchangeValue((ulong*)at, 0, claim)) == 0)
            {
                lane.Next = at;
                return WriteClaimed(lane, at, claim, ref payload, length, block);
            }

            if (!FrameHeader.IsPlausible(header, lane.Segment!.SegmentLength - (at - lane.Segment.Pointer)))
                break;
            if (!hasGivenWay && FrameHeader.State(header) == FrameState.Claimed)
            {
                hasGivenWay = true;
                Thread.SpinWait(GiveWaySpins);
            }

            at += FrameHeader.FrameLength(FrameHeader.Length(header));
        }

        lane.Next = at;
        return AppendRarely(lane, ref payload, length, block);
    }

    /// <summary>The steps after the claim: payload, publish, wake. The call is over afterwards.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private long WriteClaimed(
        AppendLane lane,
        byte* at,
        ulong claim,
        ref byte payload,
        int length,
        ReadOnlySpan<byte> block,
        bool isKnown = false,
        bool isShort = false)
    {
        ProtocolSteps.Reach(ProtocolStep.Claimed);
        long offset = (long)at + lane.AddressToOffset;
        ulong header = WritePayload(at, offset, ref payload, length, block, isKnown, isShort);
        return Publish(lane, at, claim, header, FrameHeader.FrameLength(length) + block.Length);
    }

    /// <inheritdoc/>
    /// <remarks>Walks until the claim succeeds.</remarks>
    protected override bool TryClaimFrames(AppendLane lane, long totalLength)
    {
        while (true)
        {
            if (!TryBeginCall(lane, totalLength))
                return false;
            uint low = FrameHeader.LowHalf((int)(totalLength - FrameHeader.Size), FrameState.Claimed);
            lane.Claim = FrameHeader.Make(low, _owner);
            if (!IsBlank(lane, lane.Next))
                ThrowIfDamaged(lane);
            // P2 full: from free to claimed; pairs with P4 acquire in SegmentRoller and LogReader.
            if (SharedWord.CompareExchange((ulong*)lane.Next, 0, lane.Claim))
            {
                ProtocolSteps.Reach(ProtocolStep.Claimed);
                return true;
            }

            // Another producer was faster. The call begins again: BeginCall may throw after a Dispose in between, and that
            // Dispose would wait for ever for a mark that stayed behind.
            EndCall(lane);
        }
    }

    /// <summary>
    /// Whether the word after a free header is zero, as everything beyond the tail is while Shared producers are at work. A
    /// message that begins with zeros passes too.
    /// </summary>
    private static bool IsBlank(AppendLane lane, byte* at) =>
        at + (2 * FrameHeader.Size) > lane.Segment!.Pointer + lane.Segment.SegmentLength
        // P2 acquire: a payload comes after its claim; pairs with P2 full in TryClaimFrames.
        || SharedWord.ReadAcquire((ulong*)(at + FrameHeader.Size)) == 0;

    /// <summary>Throws when the place is still free: another producer's claim would be visible before its payload.</summary>
    private void ThrowIfDamaged(AppendLane lane)
    {
        // P2 acquire: after the word that is not zero; pairs with P2 full in TryClaimFrames.
        if (SharedWord.ReadAcquire((ulong*)lane.Next) != 0)
            return;
        long offset = lane.Offset;
        EndCall(lane);
        throw Store.Corrupt(offset, 0);
    }

    protected override void Publish(AppendLane lane, ulong header, long length)
    {
        if (PlantedFaults.Has(PlantedFault.BatchHeadFirst) && *(ulong*)lane.Next == header)
            *(ulong*)lane.Next = lane.Claim;
        _ = Publish(lane, lane.Next, lane.Claim, header, length);
    }

    /// <summary>Steps 3 and 4, and the end of the call; returns the offset.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private long Publish(AppendLane lane, byte* at, ulong claim, ulong header, long length)
    {
        ProtocolSteps.Reach(ProtocolStep.PayloadWritten);
        // P3 full: publishes from exactly the claimed value; pairs with P1 acquire in LogReader.
        if (!SharedWord.CompareExchange((ulong*)at, claim, header))
            ThrowFenced(lane, (long)at + lane.AddressToOffset);
        ProtocolSteps.Reach(ProtocolStep.Published);
        lane.Next = at + length;
        return WakeAndEnd(lane, lane.Owner, (long)at + lane.AddressToOffset);
    }

    /// <summary>This thread's lane, where the likely one is not. It may become the likely one.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private AppendLane LaneByThread(byte* stack)
    {
        AppendLane lane = OwnLane();
        if (lane.Lookups++ % LookupsPerChange == 0)
        {
            lane.Owner.SetStack(stack);
            _likely = lane;
        }

        return lane;
    }

    /// <summary>
    /// In a call: this thread's lane in place of that of an ended thread whose stack this one got. On such a lane a thread only
    /// appends below the bound.
    /// </summary>
    private AppendLane TakeOwn(AppendLane lane)
    {
        if (lane.Thread == Thread.CurrentThread)
            return lane;
        if (!lane.HasOpenClaim)
            EndCall(lane);
        _likely = null;
        lane = OwnLane();
        lane.BeginAsOnlyThread();
        return lane;
    }

    /// <summary>This thread's lane, made at its first call. Also releases the lanes of threads that have ended.</summary>
    protected override AppendLane OwnLane()
    {
        AppendLane?[] lanes = t_lanes ??= new AppendLane?[Math.Max(4, _id + 1)];
        if (_id >= lanes.Length)
        {
            Array.Resize(ref lanes, Math.Max(lanes.Length * 2, _id + 1));
            t_lanes = lanes;
        }

        if (lanes[_id] is { } known && known.Appender == this)
            return known;
        lock (_lock)
        {
            PublicNames.ThrowIfDisposed(IsDisposed, PublicNames.Producer);
            ReleaseEndedLanes();
            var lane = new AppendLane(this, Thread.CurrentThread, ThrowIfDisposed);
            _lanes.Add(lane);
            lanes[_id] = lane;
            return lane;
        }
    }

    /// <summary>A lane that another thread uses by its stack meanwhile stays until the next time.</summary>
    private void ReleaseEndedLanes()
    {
        List<AppendLane> ended = [.. _lanes.Where(lane => !lane.Thread!.IsAlive && !lane.HasOpenClaim)];
        if (ended.Count == 0)
            return;
        if (_likely is { } likely && ended.Contains(likely))
            _likely = null;
        foreach (AppendLane lane in ended)
            lane.Bound = null;
        Interlocked.MemoryBarrierProcessWide(); // P7 full: bounds away before the loads; pairs with P7 release in the appenders.
        foreach (AppendLane lane in ended)
        {
            if (lane.IsInCall)
                continue;
            Roller.Unmap(lane);
            _lanes.Remove(lane);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void ThrowFenced(AppendLane lane, long offset)
    {
        EndCall(lane);
        throw Fenced(offset);
    }
}

/// <summary>
/// Small numbers for appenders, so that a thread finds its lane by index. A closed appender returns its number.
/// </summary>
internal static class AppenderIds
{
    private static readonly Lock s_lock = new();

    /// <summary>The largest first.</summary>
    private static readonly List<int> s_free = [];

    private static int s_next;

    public static int Take()
    {
        lock (s_lock)
        {
            if (s_free.Count == 0)
                return s_next++;
            int id = s_free[^1];
            s_free.RemoveAt(s_free.Count - 1);
            return id;
        }
    }

    public static void Return(int id)
    {
        lock (s_lock)
        {
            int place = s_free.Count;
            while (place > 0 && s_free[place - 1] < id)
                place--;
            s_free.Insert(place, id);
        }
    }
}

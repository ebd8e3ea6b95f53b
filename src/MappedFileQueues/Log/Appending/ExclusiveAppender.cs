using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Appends while holding the producers' lock exclusively. There is no claim, which would double the cost: the payload goes into
/// free space, the place of the next header is zeroed, and one release store publishes the header.
/// <code>
/// 1 payload after the place of the header         crash: bytes beyond the tail that no reader enters
/// 2 zero the place of the next header             crash: the same
/// 3 check that the header's place still holds 0   otherwise a process writes without the lock: fail
/// 4 store the header (release)                    crash: the message is there
/// 5 read the waiters' flag
/// </code>
/// Without step 2 the bytes that a dead or abandoned append left would become headers after a shorter successor. The barrier
/// between 4 and 5 is the waiter's (membarrier); where that is unavailable an exchange replaces the store. Because dirty bytes
/// may be beyond the tail, the control page says "exclusive producer at work" until they are zeroed.
/// </summary>
internal sealed unsafe class ExclusiveAppender : LogAppender
{
    private readonly AppendLane _lane;

    /// <summary>Odd while the thread of <see cref="PendingAppends"/> appends here.</summary>
    private int _appendsForWaiting;
    private int _threadForWaiting;

    public ExclusiveAppender(LogStore store, FlushEngine flusher, SegmentRoller roller, bool waitersRunBarrier)
        : base(store, flusher, roller)
    {
        _lane = new AppendLane(this, thread: null, ThrowIfDisposed, mayHaveBound: waitersRunBarrier);
        try
        {
            BeginCall(_lane, FrameHeader.Size);
            _lane.HasStarted = true;
            EndCall(_lane);
        }
        catch
        {
            LeaveSegment();
            throw;
        }
    }

    public override long TailOffset => _lane.Offset;

    public override long TryAppend(ReadOnlySpan<byte> block, ReadOnlySpan<byte> message) =>
        Append(ref MemoryMarshal.GetReference(message), message.Length, block: block);

    /// <inheritdoc/>
    /// <remarks>A caller that comes meanwhile waits for this append, which is no call of the user.</remarks>
    public override bool TryAppendForWaiting(WaitingMessages messages, out long offset)
    {
        _threadForWaiting = Environment.CurrentManagedThreadId;
        Interlocked.Increment(ref _appendsForWaiting); // P39 full: before the lane is taken; pairs with P39 acquire in TakeOver.
        try
        {
            byte here;
            if (!_lane.TryBegin(&here, out _) && !_lane.Take(&here))
            {
                offset = Full;
                return false;
            }

            // The lane is this thread's now, and the append marks a call of its own.
            EndCall(_lane);
            offset = messages.AppendTo(this);
            return true;
        }
        catch (InvalidOperationException error) when (error is not ObjectDisposedException)
        {
            // Between the two marks the caller came.
            offset = Full;
            return false;
        }
        finally
        {
            Interlocked.Increment(ref _appendsForWaiting); // P39 full: the lane is free; pairs with P39 acquire in TakeOver.
        }
    }

    /// <summary>
    /// Appends one message; returns its offset, or <see cref="LogAppender.Full"/>. One thread at a time.
    /// </summary>
    /// <param name="payload">The message.</param>
    /// <param name="length">Its length.</param>
    /// <param name="isKnown">The length is constant at the call site.</param>
    /// <param name="block">The message's header block; nothing is left of it at a call site without one.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public long Append(ref byte payload, int length, bool isKnown = false, ReadOnlySpan<byte> block = default)
    {
        AppendLane lane = _lane;
        byte here;
        if (!lane.TryBegin(&here, out CallMark mark))
            return AppendInTurn(ref payload, length, block, &here);
        byte* at = lane.Next;
        byte* end = at + FrameHeader.FrameLength(length) + block.Length;
        if (end + FrameHeader.Size > lane.Bound || (uint)(length + block.Length) > LengthMaxAtOnce(isKnown))
            return AppendElsewhere(lane, ref payload, length, block);

        long offset = (long)at + lane.AddressToOffset;
        ulong header = WritePayload(at, offset, ref payload, length, block, isKnown, isShort: true);
        // A lane has a bound only where no publish needs a barrier, and its bound leaves room for the next header.
        // With a length that is not known, too much has to be kept across the copy to keep the mark as well.
        return Publish(lane, isKnown ? mark : null, header, at, end, offset, hasNext: true, hasBarrier: false);
    }

    public override AppendLane? Claim(int payloadLength)
    {
        ThrowIfTooLong(payloadLength);
        long frameLength = FrameHeader.FrameLength(payloadLength);
        if (!TryBeginCall(_lane, frameLength))
            return null;
        _lane.DirtyTo = Math.Max(_lane.DirtyTo, _lane.Offset + frameLength);
        return OpenClaim(_lane, frameLength);
    }

    public override long PublishClaim(AppendLane lane, int messageLength)
    {
        long offset = lane.Offset;
        long frameLength = FrameHeader.FrameLength(messageLength) + lane.BlockLength;
        ulong header = SealPayload(lane.Next, offset, lane.BlockLength, messageLength);
        Publish(lane, header, frameLength);
        return offset;
    }

    public override void AbandonClaim(AppendLane lane) => EndCall(lane);

    protected override void AbandonBatch(AppendLane lane)
    {
        try
        {
            ZeroDirtyBytes();
        }
        finally
        {
            EndCall(lane);
        }
    }

    /// <inheritdoc/>
    /// <remarks>Zeroes bytes that were written and never published, and syncs the zeros, as `StoreRecovery` does.</remarks>
    public override bool TryLeaveClean()
    {
        bool isClean = TryZeroDirtyBytes();
        LeaveSegment();
        return isClean;
    }

    private bool TryZeroDirtyBytes()
    {
        try
        {
            ZeroDirtyBytes();
            return true;
        }
        catch (QueueDiskException)
        {
            // The next producer does the same, and meets the disk's error if it persists.
            return false;
        }
    }

    private void LeaveSegment() => Roller.Unmap(_lane);

    protected override AppendLane? FindLaneOfOwnClaim() =>
        _lane.HasOpenClaim && _lane.ClaimThread == Thread.CurrentThread ? _lane : null;

    protected override IReadOnlyList<AppendLane> Lanes() => [_lane];

    protected override void PadFencedClaim(AppendLane lane)
    {
        if (lane.Position + lane.ClaimLength < lane.Segment!.SegmentLength)
            *(ulong*)(lane.Next + lane.ClaimLength) = 0;
        // P1 full: closes the claim's place for good; pairs with P1 acquire in LogReader.
        SharedWord.Exchange((ulong*)lane.Next, Checksum.PaddingHeader(lane.Offset, lane.ClaimLength));
        // The lane stays where it is: the claim's thread may be about to read where it may write.
        Store.Wake.WakeIfAwaited();
        Store.CapacityWake.WakeIfAwaited();
    }

    protected override void MarkCall(AppendLane lane)
    {
        byte here;
        if (!lane.TryBegin(&here, out _))
            TakeOver(lane, &here);
    }

    /// <summary>Takes over from the thread that produced before, unless that thread is in a call.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeOver(AppendLane lane, byte* stack)
    {
        var spinner = new SpinWait();
        while (true)
        {
            int before = Volatile.Read(ref _appendsForWaiting); // P39 acquire: pairs with P39 full in TryAppendForWaiting.
            if (lane.Take(stack))
                return;
            int now = Volatile.Read(ref _appendsForWaiting); // P39 acquire: pairs with P39 full in TryAppendForWaiting.
            if (before == now && ((now & 1) == 0 || _threadForWaiting == Environment.CurrentManagedThreadId))
                throw new InvalidOperationException("Two threads call an Exclusive producer at once; nothing was appended by "
                    + $"this call: path={Store.Path}. Let them take turns, or use ProducerMode.Shared.");
            spinner.SpinOnce();
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long AppendInTurn(ref byte payload, int length, ReadOnlySpan<byte> block, byte* stack)
    {
        TakeOver(_lane, stack);
        return AppendRarely(_lane, ref payload, length, block);
    }

    /// <summary>Appends a message that is too long for the fast path, or has no room there, in its call.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private long AppendElsewhere(AppendLane lane, ref byte payload, int length, ReadOnlySpan<byte> block)
    {
        byte* at = lane.Next;
        byte* end = at + FrameHeader.FrameLength(length) + block.Length;
        if (end + FrameHeader.Size > lane.Bound || (uint)(length + block.Length) > FrameHeader.PayloadLengthMax)
            return AppendRarely(lane, ref payload, length, block);
        long offset = (long)at + lane.AddressToOffset;
        ulong header = WritePayload(at, offset, ref payload, length, block);
        return Publish(lane, mark: null, header, at, end, offset, hasNext: true, hasBarrier: false);
    }

    private void ZeroDirtyBytes()
    {
        if (_lane.Segment is not { } segment || _lane.DirtyTo <= _lane.Offset)
            return;
        long length = Math.Min(_lane.DirtyTo, segment.End) - _lane.Offset;
        new Span<byte>(_lane.Next, (int)length).Clear();
        Flusher.SyncAhead(segment.Start);
        _lane.DirtyTo = _lane.Offset;
    }

    protected override AppendLane OwnLane() => _lane;

    protected override bool TryClaimFrames(AppendLane lane, long totalLength) => TryBeginCall(lane, totalLength);

    protected override void Publish(AppendLane lane, ulong header, long length)
    {
        byte* at = lane.Next;
        if (PlantedFaults.Has(PlantedFault.BatchHeadFirst) && *(ulong*)at == header)
            *(ulong*)at = 0;
        bool hasNext = lane.Position + length < lane.Segment!.SegmentLength;
        _ = Publish(lane, mark: null, header, at, at + length, lane.Offset, hasNext, !lane.MayHaveBound);
    }

    /// <summary>Steps 2 to 5, and the end of the call; returns the offset.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private long Publish(
        AppendLane lane, CallMark? mark, ulong header, byte* at, byte* end, long offset, bool hasNext, bool hasBarrier)
    {
        ProtocolSteps.Reach(ProtocolStep.PayloadWritten);
        if (hasNext && !PlantedFaults.Has(PlantedFault.NextHeaderNotZeroed))
            *(ulong*)end = 0;
        ProtocolSteps.Reach(ProtocolStep.NextHeaderZeroed);
        if (*(ulong*)at != 0)
            ThrowForeign(lane);
        if (hasBarrier)
            SharedWord.Exchange((ulong*)at, header); // P1 full: publishes, and is a barrier; pairs with P1 acquire in LogReader.
        else
            SharedWord.WriteRelease((ulong*)at, header); // P1 release: pairs with P1 acquire in LogReader.
        ProtocolSteps.Reach(ProtocolStep.Published);
        lane.Next = end;
        return WakeAndEnd(lane, mark ?? lane.Owner, offset);
    }

    /// <summary>Only throws: so the compiler knows that it does not return, and keeps registers across it.</summary>
    [DoesNotReturn]
    private void ThrowForeign(AppendLane lane)
    {
        EndCall(lane);
        throw LogErrors.Foreign(Store.Path, lane.Offset);
    }
}

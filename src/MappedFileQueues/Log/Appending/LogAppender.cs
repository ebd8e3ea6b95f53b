using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// What both kinds of appending share: the limits, the claims for filling in place, and the end. An append makes sure of room
/// (one compare with the lane's bound), writes the payload after the header's place, publishes it by storing the header last,
/// then reads one shared word, the waiters' flag.
/// </summary>
internal abstract unsafe class LogAppender(LogStore store, FlushEngine flusher, SegmentRoller roller) : IProducerLanes
{
    /// <summary>The result of an append that would go too far beyond the slowest consumer; nothing was written.</summary>
    public const long Full = -1;

    private readonly ulong* _waiterFlag = store.Wake.Flag;
    private volatile bool _disposed;
    private volatile bool _mustStayMapped;

    /// <summary>The largest payload of one frame, and the largest claimed length of a batch.</summary>
    public int PayloadLimit { get; } = FrameHeader.PayloadLimit(store.Meta.SegmentLength);

    /// <summary>Where the next frame would go, as far as this producer knows.</summary>
    public abstract long TailOffset { get; }

    protected LogStore Store { get; } = store;

    protected FlushEngine Flusher { get; } = flusher;

    protected SegmentRoller Roller { get; } = roller;

    protected FrameChecksum Checksum { get; } = store.Checksum;

    /// <summary>No call begins any more.</summary>
    public bool IsDisposed => _disposed;

    /// <summary>For waits; they check the end of the queue separately.</summary>
    public void ThrowIfDisposed() => PublicNames.ThrowIfDisposed(_disposed, PublicNames.Producer);

    /// <summary>
    /// Reserves a frame for filling in place; the caller publishes or abandons it on the same thread. Null: <see cref="Full"/>.
    /// </summary>
    public abstract AppendLane? Claim(int payloadLength);

    /// <summary>
    /// Publishes the open claim's header block and the first <paramref name="messageLength"/> bytes after it; returns the
    /// message's offset.
    /// </summary>
    public abstract long PublishClaim(AppendLane lane, int messageLength);

    /// <summary>Ends the open claim so that no reader sees any of it.</summary>
    public abstract void AbandonClaim(AppendLane lane);

    /// <summary>Appends one message; returns its offset, or <see cref="Full"/>.</summary>
    /// <param name="block">Its header block; empty for none.</param>
    /// <param name="message">The message.</param>
    public abstract long TryAppend(ReadOnlySpan<byte> block, ReadOnlySpan<byte> message);

    /// <summary>
    /// Appends on a thread that is not the caller's, for a call that waits; the offset is that of the first message, or
    /// <see cref="Full"/>. False while the caller is in another call of the producer.
    /// </summary>
    public abstract bool TryAppendForWaiting(WaitingMessages messages, out long offset);

    /// <summary>Appends messages of one size that become readable all at once; returns the first one's offset.</summary>
    public long AppendBatch(ref byte messages, int messageLength, int count)
    {
        long total = checked(FrameHeader.FrameLength(messageLength) * count);
        ThrowIfTooLong(total - FrameHeader.Size);
        AppendLane lane = OwnLane();
        if (!TryClaimFrames(lane, total))
            return Full;
        long offset = lane.Offset;
        Publish(lane, WriteBatch(lane.Next, offset, ref messages, messageLength, count), total);
        return offset;
    }

    /// <summary>
    /// Appends messages of any lengths, or with header blocks, that become readable all at once; returns the first one's offset.
    /// It works under an open claim, because a message's memory may be a user's own: if that code produces or disposes here, it
    /// must meet the claim.
    /// </summary>
    /// <exception cref="InvalidOperationException">The messages were changed meanwhile and no longer fit the claim.</exception>
    public long AppendBatch(in MessagesToAppend messages)
    {
        long total = messages.FramesLength;
        ThrowIfTooLong(total - FrameHeader.Size);
        if (Claim((int)(total - FrameHeader.Size)) is not { } lane)
            return Full;
        int number = lane.ClaimNumber;
        long offset = lane.Offset;
        ulong header;
        try
        {
            header = WriteBatch(lane.Next, offset, messages, total);
        }
        catch
        {
            // A user's own MemoryManager threw, or the messages were changed: none of the batch becomes visible.
            if (lane.TryEndClaim(number))
                AbandonBatch(lane);
            throw;
        }

        if (!lane.TryEndClaim(number))
            throw Fenced(offset);
        Publish(lane, header, total);
        return offset;
    }

    /// <summary>Allocates and touches room ahead, so that appends of this process meet no page fault.</summary>
    public void Prepare(long bytes)
    {
        long tail = TailOffset;
        if (bytes > LogLimits.OffsetMax - tail)
            throw new ArgumentOutOfRangeException(nameof(bytes), bytes, $"No log has so much room: tail={tail}.");
        try
        {
            Store.Producers.Preparer?.PrepareTo(tail, tail + bytes);
        }
        catch (QueueDiskException)
        {
            Store.ThrowIfReplaced();
            throw;
        }
    }

    /// <summary>
    /// Takes away the calling thread's own open claim: a Dispose would wait for it for ever. Call it before any wait, since
    /// another thread's Dispose may be waiting for the same claim. The claim's memory stays: the caller may be a fill callback,
    /// which continues writing there.
    /// </summary>
    public void FenceOwnClaim()
    {
        if (FindLaneOfOwnClaim() is not { } lane || !TryFence(lane))
            return;
        // Before the call ends: a thread that waits for that end releases the memory unless this is set.
        _mustStayMapped = true;
        EndCall(lane);
    }

    /// <inheritdoc/>
    // Their places are read while their threads may move them: a wrong one costs a check on the rare path, or misses a lane.
    public void TakeBoundsBelow(long offset)
    {
        foreach (AppendLane lane in Lanes())
        {
            if (lane.Offset < offset)
                lane.Bound = null;
        }
    }

    /// <summary>
    /// Whether this thread has an open claim: then it must not wait for one, or for a message. Takes no lock: a Dispose may be
    /// waiting for that claim.
    /// </summary>
    public bool HasOwnOpenClaim() => FindLaneOfOwnClaim() is not null;

    /// <summary>Releases the mappings, after <see cref="Close"/> returned that all calls are over.</summary>
    /// <returns>False when bytes that were never published may be beyond the tail.</returns>
    public abstract bool TryLeaveClean();

    /// <summary>Refuses new calls, waits for calls under way, ends open claims. See <see cref="AppendLane"/>.</summary>
    /// <returns>False when a claim was fenced: its mapping must stay for the life of the process.</returns>
    public bool Close()
    {
        _disposed = true;
        if (Store.Settings.UnconsumedBytesMax > 0)
            Store.CapacityWake.Interrupt();
        FenceOwnClaim();
        bool clean = LaneDrain.Drain(Lanes(), Store.Settings.LockTimeout, TryFence);
        return clean && !_mustStayMapped;
    }

    /// <summary>The call, or the claim, is over.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    protected static void EndCall(AppendLane lane) => lane.EndCall();

    /// <summary>
    /// The longest message of a fast path. Where its length is a constant, nothing is left of what the checksum of a longer one
    /// takes; otherwise the call of that would cost the short ones what they keep in registers.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    protected static int LengthMaxAtOnce(bool isKnown) =>
        isKnown ? FrameHeader.PayloadLengthMax : Math.Min(Crc32C.ShortMax, FrameHeader.PayloadLengthMax);

    /// <summary>
    /// Marks a call of the rare kind and makes room for something that is no message. If it throws, the call is over.
    /// </summary>
    protected void BeginCall(AppendLane lane, long frameLength) => _ = TryBeginCall(lane, frameLength, isForMessage: false);

    /// <summary>
    /// As <see cref="BeginCall"/>, for a message or a batch. False when it would go too far beyond the slowest consumer: the
    /// call is over.
    /// </summary>
    protected bool TryBeginCall(AppendLane lane, long frameLength, bool isForMessage = true)
    {
        bool hasRoom;
        ThrowIfNotReady(lane);
        ProtocolSteps.Reach(ProtocolStep.CallChecked);
        MarkCall(lane);
        try
        {
            RecheckDisposed(lane);
            // Poison is a mapped word: before the mark it may be unmapped.
            if (Store.Wake.IsPoisoned)
                throw Store.Poisoned();
            try
            {
                hasRoom = Roller.MakeRoom(lane, frameLength, isForMessage);
            }
            catch (QueueDiskException)
            {
                // If no file can be made in a folder, the folder may be gone, and the store with it.
                Store.ThrowIfReplaced();
                throw;
            }

            RecheckDisposed(lane);
            if (Flusher.Failure.FindRefusal() is { } refusal)
            {
                lane.Bound = null;
                throw refusal;
            }
        }
        catch
        {
            EndCall(lane);
            throw;
        }

        if (!hasRoom)
            EndCall(lane);
        return hasRoom;
    }

    /// <summary>Marks a call of the rare kind.</summary>
    protected virtual void MarkCall(AppendLane lane) => lane.BeginAsOnlyThread();

    /// <summary>Opens a claim on a lane that has room for it.</summary>
    protected static AppendLane OpenClaim(AppendLane lane, long frameLength)
    {
        lane.ClaimLength = frameLength;
        lane.BlockLength = 0;
        lane.ClaimThread = Thread.CurrentThread;
        lane.BeginClaim();
        lane.Bound = null;
        return lane;
    }

    /// <summary>This thread's lane if it has an open claim; otherwise null.</summary>
    protected abstract AppendLane? FindLaneOfOwnClaim();

    /// <summary>The existing lanes; a thread that asks for its first one from now on is refused.</summary>
    protected abstract IReadOnlyList<AppendLane> Lanes();

    /// <summary>As <see cref="AbandonClaim"/>, for a claim that may contain whole frames.</summary>
    protected virtual void AbandonBatch(AppendLane lane) => AbandonClaim(lane);

    /// <summary>The lane of this thread's calls.</summary>
    protected abstract AppendLane OwnLane();

    /// <summary>
    /// Begins a call and makes the next place its own. On return the lane is at that place; false when the consumers are too
    /// far behind.
    /// </summary>
    protected abstract bool TryClaimFrames(AppendLane lane, long totalLength);

    /// <summary>Appends a message that the fast path has left, in its call.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    protected long AppendRarely(AppendLane lane, ref byte payload, int length, ReadOnlySpan<byte> block)
    {
        if (!lane.HasOpenClaim)
            EndCall(lane);
        ThrowIfTooLong((long)block.Length + length);
        long frameLength = FrameHeader.FrameLength(length) + block.Length;
        if (!TryClaimFrames(lane, frameLength))
            return Full;
        long offset = lane.Offset;
        Publish(lane, WritePayload(lane.Next, offset, ref payload, length, block), frameLength);
        return offset;
    }

    /// <summary>
    /// Turns a claim that was taken away into padding: its thread may still write there, so no other producer may.
    /// </summary>
    protected abstract void PadFencedClaim(AppendLane lane);

    /// <summary>Publishes the payload after the lane's place; the call is over afterwards.</summary>
    protected abstract void Publish(AppendLane lane, ulong header, long length);

    /// <summary>
    /// The publisher's second step, and the end of the call: every waiter has raised the flag. The publish before it was a full
    /// barrier, or the waiter sends one to this thread.
    /// </summary>
    /// <returns>The offset.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    protected long WakeAndEnd(AppendLane lane, CallMark mark, long offset)
    {
        // P9 acquire: pairs with P9 full in WakeSignal.Raise.
        ulong flag = SharedWord.ReadAcquire(_waiterFlag);
        if (flag != 0)
            return WakeRarely(lane, flag, offset);
        mark.End();
        return offset;
    }

    /// <summary>Copies a message after its header's place and returns the header that publishes it.</summary>
    /// <param name="at">The header's place.</param>
    /// <param name="offset">Its offset.</param>
    /// <param name="payload">The message.</param>
    /// <param name="length">Its length.</param>
    /// <param name="block">Its header block; empty for none.</param>
    /// <param name="isKnown">The length is constant at the call site.</param>
    /// <param name="isShort">It is within <see cref="LengthMaxAtOnce"/>.</param>
    /// <param name="state">Whether the batch continues with the next frame.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    protected ulong WritePayload(
        byte* at,
        long offset,
        ref byte payload,
        int length,
        ReadOnlySpan<byte> block = default,
        bool isKnown = false,
        bool isShort = false,
        FrameState state = FrameState.Published)
    {
        ref byte place = ref at[FrameHeader.Size];
        uint low = FrameHeader.LowHalf(length + block.Length, state, block.Length);
        uint crc = Checksum.Begin(offset, low);
        if (!block.IsEmpty)
        {
            crc = Crc32C.CopyAndAppendWords(crc, ref place, ref MemoryMarshal.GetReference(block), block.Length);
            place = ref Unsafe.Add(ref place, block.Length);
        }

        crc = (isKnown, isShort) switch
        {
            (true, _) => Crc32C.CopyAndAppendKnown(crc, ref place, ref payload, length),
            (_, true) => Crc32C.CopyAndAppendShort(crc, ref place, ref payload, length),
            _ => Crc32C.CopyAndAppend(crc, ref place, ref payload, length),
        };
        return FrameHeader.Make(low, crc);
    }

    private static FrameState StateInBatch(bool batchContinues) =>
        batchContinues ? FrameState.PublishedInBatch : FrameState.Published;

    /// <summary>Writes the frames of a batch, complete except for the first header, which publishes them all.</summary>
    /// <returns>The first header.</returns>
    private ulong WriteBatch(byte* first, long offset, ref byte messages, int messageLength, int count)
    {
        long frameLength = FrameHeader.FrameLength(messageLength);
        FrameState state = StateInBatch(count > 1);
        if (PlantedFaults.Has(PlantedFault.BatchHeadFirst))
            *(ulong*)first = WritePayload(first, offset, ref messages, messageLength, state: state);
        for (int i = 1; i < count; i++)
        {
            byte* at = first + (i * frameLength);
            ref byte message = ref Unsafe.Add(ref messages, (nint)i * messageLength);
            *(ulong*)at = WritePayload(
                at, offset + (i * frameLength), ref message, messageLength, state: StateInBatch(i < count - 1));
            ProtocolSteps.Reach(ProtocolStep.BatchInnerWritten);
        }

        return WritePayload(first, offset, ref messages, messageLength, state: state);
    }

    /// <summary>The same for messages of any lengths.</summary>
    [SkipLocalsInit]
    private ulong WriteBatch(byte* first, long offset, in MessagesToAppend messages, long claimed)
    {
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        ulong head = 0;
        long position = 0;
        int i = 0;
        for (; i < messages.Count; i++)
        {
            ReadOnlySpan<byte> message = messages[i];
            ReadOnlySpan<byte> block = messages.WriteBlock(i, scratch);
            long next = position + FrameHeader.FrameLength(message.Length) + block.Length;
            if (next > claimed)
                break;
            byte* at = first + position;
            ulong header = WritePayload(at, offset + position, ref MemoryMarshal.GetReference(message), message.Length, block,
                state: StateInBatch(i < messages.Count - 1));
            if (i == 0)
                head = header;
            if (i > 0 || PlantedFaults.Has(PlantedFault.BatchHeadFirst))
                *(ulong*)at = header;
            if (i > 0)
                ProtocolSteps.Reach(ProtocolStep.BatchInnerWritten);
            position = next;
        }

        return position == claimed && i == messages.Count ? head : throw new InvalidOperationException(
            "Another thread changed the batch during the append; nothing was appended.");
    }

    /// <summary>The header for a header block and a message that are already in place.</summary>
    protected ulong SealPayload(byte* at, long offset, int blockLength, int messageLength)
    {
        int length = blockLength + messageLength;
        uint low = FrameHeader.LowHalf(length, FrameState.Published, blockLength);
        return FrameHeader.Make(low, Crc32C.Append(Checksum.Begin(offset, low), ref at[FrameHeader.Size], length));
    }

    /// <summary>
    /// Throws for a disposed producer and for a thread that would wait for its own claim. The call is not marked yet, so no
    /// mapped memory may be read.
    /// </summary>
    private void ThrowIfNotReady(AppendLane lane)
    {
        PublicNames.ThrowIfDisposed(_disposed, PublicNames.Producer);
        if (lane.HasOpenClaim && lane.ClaimThread == Thread.CurrentThread)
            throw new InvalidOperationException("This thread has an open claim on this producer. Publish or dispose it first.");
    }

    /// <summary>Refuses a message that can never fit, before anything is written.</summary>
    protected void ThrowIfTooLong(long payloadLength)
    {
        if ((ulong)payloadLength > (ulong)PayloadLimit)
            throw new ArgumentOutOfRangeException(nameof(payloadLength), payloadLength,
                $"The message, or the whole batch with its headers, does not fit a segment: length={payloadLength}, "
                + $"limit={PayloadLimit}, segmentLength={Store.Meta.SegmentLength}. Nothing was written. "
                + "Use a store with larger segments.");
    }

    /// <summary>
    /// After a bound was set: a Dispose in between must not be missed (it takes the bound away, then sends a barrier).
    /// </summary>
    protected void RecheckDisposed(AppendLane lane)
    {
        // P33 full: the bound comes before the check whether flushes fail too; pairs with P33 full in FlushFailure.
        Interlocked.MemoryBarrier(); // P7 full: bound before the load of disposed; pairs with P7 full in LaneDrain.
        if (!_disposed)
            return;
        lane.Bound = null;
        throw new ObjectDisposedException(PublicNames.Producer);
    }

    /// <summary>The claim at that offset was taken away.</summary>
    protected ProducerFencedException Fenced(long offset) =>
        new($"The claim was taken away from this producer; the message was not published: offset={offset}, "
            + $"path={Store.Directory.Path}. Open a new producer and produce the message again.");

    /// <summary>False when the claim's thread has ended the claim meanwhile: its lane may have moved on.</summary>
    private bool TryFence(AppendLane lane)
    {
        if (!lane.TryFenceClaim())
            return false;
        PadFencedClaim(lane);
        return true;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private long WakeRarely(AppendLane lane, ulong flag, long offset)
    {
        if ((flag & ~ControlLayout.PoisonBit) != 0)
        {
            Store.Wake.Wake(flag);
            // The readers have caught up: this may be the last message before a pause, in which others may write and bytes may
            // be lost. The next append checks closely (SharedAppender); beside a wake the cost of that is negligible.
            if (!lane.IsExclusive)
                lane.Bound = null;
        }

        EndCall(lane);
        return (flag & ControlLayout.PoisonBit) == 0 ? offset : throw Store.Poisoned();
    }
}

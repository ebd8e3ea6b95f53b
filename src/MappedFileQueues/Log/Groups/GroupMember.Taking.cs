using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Groups;

/// <summary>How a member takes messages, and reads them.</summary>
internal sealed unsafe partial class GroupMember
{
    private const int CallsPerLook = 16;

    /// <summary>128 messages; more would leave the cache before they are read.</summary>
    private const int LeasesPerTurn = 4;

    /// <summary>The end of the last hand-out from which the walker came to where it is; -1: none.</summary>
    private long _walkedFrom = -1;

    /// <summary>Where the messages after that end begin: elsewhere only when they were removed.</summary>
    private long _walkStart;

    /// <summary>The first message of the last batch's turn.</summary>
    private long _turnStart;
    private long _nowMs;
    private bool _isRoomShort;
    private bool _sawClaim;
    private volatile bool _isChanged;

    /// <summary>
    /// Waits for a message up to the time-out (<see cref="Timeout.InfiniteTimeSpan"/> never ends) and takes it; false when the
    /// time is up.
    /// </summary>
    public bool TryTake(TimeSpan timeout, CancellationToken cancellationToken, out byte* payload, out int length)
    {
        payload = null;
        length = 0;
        bool found = false;
        using (_reader.EnterLongCall())
        {
            BeginTaking();
            while (!found && TryTakeLease(1, timeout, cancellationToken, out GroupLease lease))
                found = TryShow(lease, 0, out payload, out length);
            _reader.NoteSpan();
        }

        RaiseNotices();
        return found;
    }

    /// <summary>The same; copies the message while the mapping is held.</summary>
    public bool TryTake<T>(TimeSpan timeout, CancellationToken cancellationToken, out T message)
        where T : unmanaged
    {
        message = default;
        bool found = false;
        using (_reader.EnterCall())
        {
            BeginTaking();
            while (!found && TryTakeLease(1, timeout, cancellationToken, out GroupLease lease))
                found = TryShow(lease, 0, out message);
        }

        RaiseNotices();
        return found;
    }

    /// <summary>
    /// Waits for one message up to the time-out, and takes those that are there; a returned one comes alone.
    /// </summary>
    public int TakeBatch<T>(
        Span<T> destination, Span<long> offsets, TimeSpan timeout, CancellationToken cancellationToken)
        where T : unmanaged
    {
        int count = 0;
        _reader.BeginLongCall();
        bool hasBegun = false;
        try
        {
            BeginTaking();
            hasBegun = true;
            bool isAlone = false;
            while (!isAlone && count < destination.Length
                && TryTakeLeases(destination.Length - count, count == 0 ? timeout : null, cancellationToken, out int leases))
            {
                for (; leases > 0; leases--)
                {
                    GroupLease lease = _inHand[_inHand.End - leases];
                    Show(lease, destination, offsets, ref count);
                    // One that was removed, or stepped over, is not there at all.
                    isAlone = lease.IsSingle && count > 0;
                }
            }
        }
        catch when (hasBegun)
        {
            // The caller hears of none of them, unless it is the first one that is damaged: that stays in hand.
            GiveBackCall(_call, keepsShown: count == 0);
            throw;
        }
        finally
        {
            _reader.EndCallIfBegun();
        }

        RaiseNotices();
        return count;
    }

    /// <summary>
    /// Takes some leases one after the other; the caller reads their messages afterwards. When members take turns, the group's
    /// word and records move from one processor's cache to another's, which takes longer than to read 32 messages.
    /// </summary>
    private bool TryTakeLeases(int countMax, TimeSpan? timeout, CancellationToken cancellationToken, out int leases)
    {
        leases = 0;
        long start = 0;
        while (leases < LeasesPerTurn && countMax > 0
            && (timeout is not null || _inHand.Count < _options.UnacknowledgedMax)
            && TryTakeLease(countMax, timeout, cancellationToken, out GroupLease lease))
        {
            if (leases++ == 0)
                start = lease.Offsets[0];
            timeout = null;
            countMax = lease.IsSingle ? 0 : countMax - lease.Count;
        }

        if (leases == 0)
            return false;
        // This member's next messages are probably as far from these as these from the last ones. Otherwise the next hand-out
        // waits for memory while the other members wait for it: two members took 27 ns a message, with this 18.
        _walker.Prefetch(start + (start - _turnStart), _walker.Offset - start);
        _turnStart = start;
        return true;
    }

    /// <summary>Shows the messages of a lease after those that were shown; counts them also when one of them throws.</summary>
    private void Show<T>(GroupLease lease, Span<T> destination, Span<long> offsets, ref int count)
        where T : unmanaged
    {
        for (int i = 0; i < lease.Count; i++)
        {
            if (!TryShow(lease, i, out destination[count]))
                continue;
            offsets[count++] = lease.Offsets[i];
            int run = ShowMore(lease, i + 1, destination[count..], offsets[count..]);
            (i, count) = (i + run, count + run);
        }
    }

    /// <summary>Begins a batch whose messages are shown one by one.</summary>
    public BatchPlace BeginBatch()
    {
        using LogReader.Call call = _reader.EnterLongCall();
        BeginTaking();
        return new BatchPlace(_call);
    }

    /// <summary>Shows the next message of the batch that began last; takes more when those in hand were all shown.</summary>
    /// <param name="batch">The place in the batch.</param>
    /// <param name="timeout">How long it waits for the first message; null for those that come with it.</param>
    /// <param name="countMax">The most messages to take.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <param name="payload">The message.</param>
    /// <param name="length">Its length.</param>
    public bool TryTakeNext(
        ref BatchPlace batch, TimeSpan? timeout, int countMax, CancellationToken cancellationToken, out byte* payload,
        out int length)
    {
        payload = null;
        length = 0;
        bool found = false;
        using (_reader.EnterLongCall())
        {
            ThrowIfBarred();
            // Another call has ended it.
            while (!found && batch.Call == _call)
            {
                if (batch.Lease is { } lease && batch.Message < lease.Count)
                {
                    // Not what an operator has taken away meanwhile.
                    int message = batch.Message++;
                    found = (lease.Left & (1u << message)) != 0 && TryShow(lease, message, out payload, out length);
                }
                else if ((timeout is null
                        && (batch.Lease is { IsSingle: true } || _inHand.Count >= _options.UnacknowledgedMax))
                    || !TryTakeLease(countMax, timeout, cancellationToken, out lease))
                {
                    break;
                }
                else
                {
                    batch = new BatchPlace(_call, lease);
                }
            }

            _reader.NoteSpan();
        }

        RaiseNotices();
        return found;
    }

    /// <summary>Whether a call would take something, now.</summary>
    public bool IsMessageThere()
    {
        using LogReader.Call call = _reader.EnterLongCall();
        ThrowIfBarred();
        return IsMessageThereNow() || (IsLookDue() && Look() && IsMessageThereNow());
    }

    private bool IsMessageThereNow()
    {
        if (_leases.IsAnyDue(_clock.NowMs))
            return true;
        _leases.ReadNext(out long end);
        Span<long> offset = stackalloc long[1];
        bool isThere = WalkOnward(end, offset, out _) != 0;
        if (isThere)
            _walkedFrom = -1;
        return isThere;
    }

    private void BeginTaking()
    {
        ThrowIfBarred();
        if (_inHand.Count >= _options.UnacknowledgedMax)
            throw TooManyInHand();
        _call++;
    }

    private InvalidOperationException TooManyInHand() => new("The member has as many messages in hand as it may: "
                + $"UnacknowledgedMax={_options.UnacknowledgedMax}, group=\"{Group}\", path={_store.Path}. "
                + "Acknowledge or reject some first.");

    /// <summary>
    /// Takes messages that are there: a returned one first, alone. Those that kill their processes do not make others look as if
    /// they did.
    /// </summary>
    private bool TryTakeLease(
        int countMax, TimeSpan? timeout, CancellationToken cancellationToken, out GroupLease lease)
    {
        countMax = Math.Min(Math.Min(countMax, GroupLayout.MessagesMax), _options.UnacknowledgedMax - _inHand.Count);
        while (true)
        {
            // A batch that has messages takes no returned one after them.
            bool takesReturned = timeout is not null;
            if (!TryTakeNow(countMax, takesReturned, out lease)
                && !(timeout is { } time && TryWait(countMax, time, cancellationToken, out lease)))
                return false;
            if (!lease.IsSingle || _options.DeliveriesMax == 0 || lease.Deliveries <= _options.DeliveriesMax)
                return true;
            MoveToLetters(lease);
        }
    }

    private bool TryTakeNow(int countMax, bool takesReturned, out GroupLease lease)
    {
        if (takesReturned)
        {
            LookNowAndThen();
            if (_leases.Table.EarliestDue != GroupLayout.NoneDue && TryTakeReturned(out lease))
                return true;
        }

        return TryHandOut(countMax, out lease);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool TryTakeReturned(out GroupLease lease)
    {
        lease = _inHand.Rent();
        if (!_leases.TryTakeReturned(_nowMs = _clock.NowMs, lease))
            return false;
        lease = Began();
        return true;
    }

    // Otherwise the profile of the first calls decides, and a process has it in line or not: 72 ns a message, or up to 88.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool TryHandOut(int countMax, out GroupLease lease)
    {
        lease = _inHand.Rent();
        while (true)
        {
            NextWord next = _leases.ReadNext(out long end);
            int count = WalkOnward(end, lease.Offsets.AsSpan(0, countMax), out long handedOutTo);
            if (count < 0)
                continue;
            if (count == 0)
                return false;
            // One that was taken and not used serves at the next attempt.
            _isRoomShort = !_leases.TryTakeRange();
            if (_isRoomShort)
            {
                _walkedFrom = -1;
                return false;
            }

            lease.Count = count;
            long start = _walkStart;
            _walkedFrom = -1;
            if (!_leases.TryHandOut(next, start, handedOutTo, lease, _nowMs))
                continue;
            (_walkedFrom, _walkStart) = (handedOutTo, handedOutTo);
            if (start != end)
                NoteGap(end, start);
            lease = Began();
            return true;
        }
    }

    private GroupLease Began()
    {
        NoteChange();
        GroupLease lease = _inHand.Begin();
        lease.Call = _call;
        return lease;
    }

    /// <summary>
    /// Walks from the end of the last hand-out to the next messages; returns how many there are, or -1 when that end is passed.
    /// </summary>
    private int WalkOnward(long end, Span<long> offsets, out long walkedTo)
    {
        // Usually the walker is there, and the messages are in its mapping.
        if (end == _walkedFrom && _walkStart >= _store.LogStart)
        {
            int count = 0;
            while (count < offsets.Length && _walker.TryReadInPlace(out _, out _))
            {
                offsets[count++] = _walker.Offset;
                if (count < offsets.Length)
                    count += _walker.AdvanceAlike(offsets[count..]);
                else
                    _walker.Advance();
            }

            walkedTo = _walker.Offset;
            if (count > 0)
                return count;
        }

        return WalkSlowly(end, offsets, out walkedTo);
    }

    private int WalkSlowly(long end, Span<long> offsets, out long walkedTo)
    {
        _reader.TakeFromEnded();
        while (true)
        {
            try
            {
                if (end != _walkedFrom)
                    MoveWalker(end);

                // A segment that is mapped can be read when it is removed. But a range that begins there would make the group one
                // that was dropped.
                if (_walkStart < _store.LogStart && _around.Retention.IsRemoved(_walkStart))
                    throw new OffsetOutOfRangeException($"The group's next messages were removed: offset={_walkStart}, "
                        + $"logStart={_store.LogStart}, group=\"{Group}\", path={_store.Path}. "
                        + "Move with a seek, or open with OnOutOfRange.");
                return Walk(offsets, out walkedTo);
            }
            catch (OffsetOutOfRangeException)
            {
                // Not in a filter of `catch`: the runtime would swallow what the look throws.
                if (IsPassed(end))
                {
                    // Others have ended what was there, and a removal came, since the caller read the word.
                    _walkedFrom = -1;
                    walkedTo = end;
                    return -1;
                }

                if (_options.OnOutOfRange == OutOfRangePolicy.Throw)
                {
                    _walkedFrom = -1;
                    throw;
                }

                // Not when the walk has only entered the next segment: it begins there anew.
                _walkStart = _options.OnOutOfRange == OutOfRangePolicy.Latest
                    ? FrameStarts.FindEnd(_store, _around.Retention, _around.Corruption, _store.ConfirmedOffset)
                    : _store.LogStart;
                _walker.MoveTo(_walkStart);
            }
            catch
            {
                _walkedFrom = -1;
                throw;
            }
        }
    }

    private void MoveWalker(long end)
    {
        _walkStart = end;
        _walker.JumpTo(end);
        _walkedFrom = end;
    }

    private bool IsPassed(long end)
    {
        _leases.ReadNext(out long now);
        return now != end;
    }

    /// <summary>Passes messages; ends early where the log does, or at damage after the first.</summary>
    private int Walk(Span<long> offsets, out long walkedTo)
    {
        int count = 0;
        walkedTo = _walker.Offset;
        _sawClaim = false;
        try
        {
            while (count < offsets.Length && TryFindOne(_walker, limit: long.MaxValue, out long offset))
            {
                offsets[count++] = offset;
                count += _walker.AdvanceAlike(offsets[count..]);
                walkedTo = _walker.Offset;
            }
        }
        catch (MappedFileQueueException) when (count > 0)
        {
            // What comes before it is there; the next walk meets it again.
            _walkedFrom = -1;
        }

        return count;
    }

    /// <summary>Whether a message is next that begins before a limit; the walker has it in hand.</summary>
    private bool TryFindOne(LogReader walker, long limit, out long offset)
    {
        offset = 0;
        if (!walker.TryReadInPlace(out _, out _))
        {
            ReadStatus status = walker.TryRead(out _, out _);
            while (status == ReadStatus.Claim && walker.TryRepairClaim())
                status = walker.TryRead(out _, out _);
            _sawClaim = status == ReadStatus.Claim;
            if (status != ReadStatus.Message)
                return false;
        }

        offset = walker.Offset;
        if (offset >= limit)
        {
            walker.PutBack();
            return false;
        }

        return true;
    }

    /// <summary>
    /// A <see cref="RangeWalk"/>. Of what was removed nothing is found. Damage before the end is thrown, unless the policy steps
    /// over it. It sees what is published, whatever this member may hand out: the one before it may have had other options.
    /// </summary>
    private int FindMessages(long start, long end, Span<long> offsets)
    {
        LogReader walker = MakeWalker(confirmed: null);
        try
        {
            while (true)
            {
                long from = Math.Max(start, _store.LogStart);
                int count = 0;
                if (from >= end)
                    return count;
                try
                {
                    walker.MoveTo(from);
                    while (count < offsets.Length && TryFindOne(walker, end, out long offset))
                    {
                        offsets[count++] = offset;
                        walker.Advance();
                    }

                    return walker.Offset >= end || count == offsets.Length ? count : -1;
                }
                catch (OffsetOutOfRangeException) when (from < _store.LogStart)
                {
                    // Removed since.
                }
            }
        }
        finally
        {
            walker.ReleaseSegment();
        }
    }

    private bool TryShow(GroupLease lease, int message, out byte* payload, out int length)
    {
        payload = null;
        length = 0;
        try
        {
            BeginShow(lease, message);
            if (!_reader.TryReadInPlace(out payload, out length) && !_reader.TryReadExtended(out payload, out length))
                ReadSlowly(lease.Offsets[message], out payload, out length);
            _reader.EndSpan();
            return true;
        }
        catch (MappedFileQueueException error)
        {
            if (!TryStepOver(lease, message, error))
                throw;
            return false;
        }
    }

    private bool TryShow<T>(GroupLease lease, int message, out T value)
        where T : unmanaged
    {
        value = default;
        try
        {
            BeginShow(lease, message);
            ref byte place = ref Unsafe.As<T, byte>(ref value);
            if (!_reader.TryCopyFixed(ref place, Unsafe.SizeOf<T>()) && !_reader.TryCopyExtended(ref place, Unsafe.SizeOf<T>()))
            {
                ReadSlowly(lease.Offsets[message], out byte* payload, out _);
                value = Unsafe.ReadUnaligned<T>(payload);
            }

            _reader.EndSpan();
            return true;
        }
        catch (MappedFileQueueException error)
        {
            if (!TryStepOver(lease, message, error))
                throw;
            return false;
        }
    }

    /// <summary>Shows messages after one that was shown, up to the first that needs something rare; returns how many.</summary>
    private int ShowMore<T>(GroupLease lease, int from, Span<T> destination, Span<long> offsets)
        where T : unmanaged
    {
        LogReader reader = _reader;
        int to = from;
        while (to < lease.Count && reader.Advance() == lease.Offsets[to]
            && reader.TryCopyFixed(ref Unsafe.As<T, byte>(ref destination[to - from]), Unsafe.SizeOf<T>()))
        {
            offsets[to - from] = _shownOffset = lease.Offsets[to];
            to++;
        }

        lease.Shown |= LeaseBits.Mask(to);
        return to - from;
    }

    private void BeginShow(GroupLease lease, int message)
    {
        lease.Shown |= 1u << message;
        (_shownOffset, _shownDeliveries) = (lease.Offsets[message], lease.Deliveries);
        if (!GroupLayout.IsOffset(_shownOffset))
            throw GroupScan.Corrupt(_file.File, lease.Record, "single", _shownOffset);
        _reader.JumpTo(_shownOffset);
    }

    private void ReadSlowly(long offset, out byte* payload, out int length)
    {
        _reader.TakeFromEnded();
        ReadStatus status = _reader.TryRead(out payload, out length);
        if (status == ReadStatus.Message && _reader.Offset == offset)
            return;
        _reader.PutBack();
        throw NoMessageAt(offset);
    }

    private QueueCorruptException NoMessageAt(long offset) => new(
        $"The log has no message where the group has one: offset={offset}, group=\"{Group}\", file={_file.File}, "
        + $"path={_store.Path}. Acknowledge it to step over it, or reset the group.",
        _file.File, offset);

    /// <summary>
    /// What was removed is finished. Damage ends the message with the policies that step over it; otherwise it stays in hand:
    /// Acknowledge steps over it, Reject gives it back.
    /// </summary>
    private bool TryStepOver(GroupLease lease, int message, MappedFileQueueException error)
    {
        long offset = lease.Offsets[message];
        bool isRemoved = error is OffsetOutOfRangeException;
        if (!isRemoved && !(error is QueueCorruptException && _around.Corruption != CorruptionPolicy.Throw))
            return false;
        uint bit = 1u << message;
        if (!_leases.TryAcknowledge(lease, bit))
            bit = lease.Left;
        _inHand.Drop(lease, bit);
        if (isRemoved)
            NoteGap(offset, _store.LogStart);
        else
            NoteDamage((QueueCorruptException)error, offset, FindNext(lease, message));
        return true;
    }

    /// <summary>Where the message after this one begins, as far as its record tells.</summary>
    private long FindNext(GroupLease lease, int message)
    {
        if (message + 1 < lease.Count)
            return lease.Offsets[message + 1];
        long least = lease.Offsets[message] + FrameHeader.Size;
        return lease.IsSingle ? least : Math.Max(least, _leases.Table.End(lease.Record));
    }

    private void MoveToLetters(GroupLease lease)
    {
        long offset = lease.Offsets[0];
        if (!TryShow(lease, 0, out byte* payload, out int length))
            return;
        try
        {
            if (!PlantedFaults.Has(PlantedFault.LetterAfterDone))
                SendLetter(offset, lease.Deliveries - 1, "DeliveriesMax",
                    $"The message was handed out {lease.Deliveries - 1} times.", new ReadOnlySpan<byte>(payload, length),
                    _reader.CopyHeaders());
        }
        catch
        {
            // It comes again in a while; the next call gets others. Nobody was given it.
            GiveBack(lease, 0, _clock.NowMs + (long)s_letterPause.TotalMilliseconds, counts: false);
            throw;
        }

        _ = _leases.TryAcknowledge(lease, 1);
        _inHand.Drop(lease, 1);
        if (PlantedFaults.Has(PlantedFault.LetterAfterDone))
            SendLetter(offset, lease.Deliveries - 1, "DeliveriesMax", "", new ReadOnlySpan<byte>(payload, length), null);
    }
}

/// <summary>How far the batch of a call has come. The lease may serve again once all of it has ended.</summary>
internal record struct BatchPlace(long Call, GroupLease? Lease = null, int Message = 0);

using System.Runtime.CompilerServices;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Groups;

/// <summary>What became of a message that was to be given back.</summary>
internal enum GivingBack
{
    /// <summary>It waits for a member.</summary>
    Done,

    /// <summary>It is not this member's any longer: somebody has taken its range over.</summary>
    NotMine,

    /// <summary>No single is free.</summary>
    Full,
}

/// <summary>
/// One member's changes of its group's table. Every change is a compare-and-swap of one word from exactly what was read, so a
/// member that is killed has made it or has not, and one that is stopped keeps nobody from working (models/lease.pml).
/// <code>
/// hand out                                                acknowledge
/// 1 read next, then its record's state and end, then      part of a range: its bits
///   next again: the same                                  all that is left of a record: its state, to done
/// 2 confirm that record: filling to held
/// 3 walk to the messages                                  give back message i of range a, held under tag t
/// 4 a free record q: done(u) to filling(me, u + 1);       1 a single c: done(u) to filling(me, u + 1)
///   its start, end, number of messages, bits (u + 1, 0)   2 its message, due, parent (a, t); its own tag u + 1 last
/// 5 next to (q, sequence + 1); failed: from 1             3 bits of a: (t, d) to (t, d | i): this decides
///   with the same q                                       4 c to waiting. A single is rejected by its due, then its state
///
/// take over range a of a dead owner (held, or filling     killed after
/// and named by next)                                      hand out 4: the record is freed by the next look
/// 1 its state: (X, t) to held(me, t + 1)                  hand out 5: next names a dead owner's record: taken over
/// 2 its bits: (t, d) to (t + 1, d); from here on X's      give back 2: the single is freed, the message is the range's
///   own changes of them fail                              give back 3: whoever takes the range over finds the bit, and
/// 3 settle singles that X had half made                     makes the single wait
/// 4 give back what is not done   5 done                   take over, any step: the next one does the same again
/// </code>
/// A range is out once `next` names it. Whoever moves `next` away has confirmed it before, so a filling range that `next` does
/// not name never was. A record is free when it is done and `next` does not name it.
/// </summary>
/// <param name="table">The group.</param>
/// <param name="file">Its file, for errors.</param>
/// <param name="owner">This member's slot and generation.</param>
/// <param name="store">The store: who is alive, and who sleeps.</param>
/// <param name="walk">Finds the messages of a range again.</param>
internal sealed unsafe class GroupLeases(GroupTable table, string file, uint owner, LogStore store, RangeWalk walk)
{
    private readonly Dictionary<uint, bool> _gone = [];
    private int _free = -1;
    private LeaseState _freeState;
    private uint _freeTag;
    private int _last = 1;
    private int _lastButOne = 2;
    private int _range;
    private int _single;

    public GroupTable Table => table;

    /// <summary>Wakes members that wait for a free range.</summary>
    public WakeSignal Room { get; } = new(store.Os, store.Control, table.RoomSequence, table.RoomFlag);

    /// <summary>Hand out, steps 1 and 2.</summary>
    /// <param name="end">Where the next message is searched.</param>
    /// <returns>What <see cref="TryHandOut"/> needs.</returns>
    public NextWord ReadNext(out long end)
    {
        NextWord next = GroupScan.ReadNext(table, file, out LeaseState state, out end);
        ProtocolSteps.Reach(ProtocolStep.GroupNextRead);
        if (PlantedFaults.Has(PlantedFault.GroupStateReadLate))
            state = table.State(next.Record);
        if (state.Kind == LeaseKind.Filling && !PlantedFaults.Has(PlantedFault.GroupNotConfirmed))
            table.TryChange(next.Record, state, state.With(LeaseKind.Held, state.Owner));
        return next;
    }

    /// <summary>Hand out, step 4, first half: a free range, which is kept until it is used; false when none is.</summary>
    public bool TryTakeRange()
    {
        if (_free >= 0)
            return true;
        if (TryTakeRange(_lastButOne) || TryTakeRange(_last))
            return true;
        // Those that were used before: few records stay in the caches.
        int used = table.UsedRanges;
        for (int i = 0; i < used; i++)
        {
            int range = (_range + i) % used;
            if (!TryTakeRange(range))
                continue;
            _range = range + 1;
            return true;
        }

        for (int range = used; range < GroupLayout.RangeCount; range++)
        {
            if (TryTakeRange(range))
                return true;
        }

        return false;
    }

    /// <summary>Hand out, steps 4 and 5; false when another member was faster: from step 1 again.</summary>
    public bool TryHandOut(NextWord next, long start, long end, GroupLease lease, long nowMs)
    {
        table.FillRange(_free, _freeTag, start, end, lease.Count, nowMs);
        ProtocolSteps.Reach(ProtocolStep.GroupRangeFilled);
        if (!table.TryMoveNext(next, NextWord.Make(_free, next.Sequence + 1)))
            return false;
        ProtocolSteps.Reach(ProtocolStep.GroupHandedOut);
        (lease.Record, lease.IsSingle, lease.Tag, lease.State) = (_free, false, _freeTag, _freeState);
        lease.Deliveries = 1;
        if (_free != _last)
            (_lastButOne, _last) = (_last, _free);
        _free = -1;
        return true;
    }

    /// <summary>A range that was taken and not used is free again.</summary>
    public void GiveUpRange()
    {
        if (_free < 0)
            return;
        if (table.TryChange(_free, _freeState, LeaseState.Done(_freeTag)))
            Ended();
        _free = -1;
    }

    /// <summary>Ends messages of a lease; false when some of them are not this member's any longer.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryAcknowledge(GroupLease lease, uint mask)
    {
        if ((lease.Left & ~mask) == 0)
            return TryEnd(lease);
        while (true)
        {
            LeaseBits bits = table.Bits(lease.Record);
            if (bits.Tag != lease.Tag)
                return false;
            if (!table.TryChangeBits(lease.Record, bits, LeaseBits.Make(bits.Tag, bits.Done | mask)))
                continue;
            ProtocolSteps.Reach(ProtocolStep.GroupBitsAcknowledged);
            return true;
        }
    }

    /// <summary>Ends all that is left of a lease, by its state alone.</summary>
    private bool TryEnd(GroupLease lease)
    {
        LeaseState done = lease.IsSingle
            ? LeaseState.Make(LeaseKind.Done, 0, lease.Tag, 0)
            : LeaseState.Done(lease.Tag);
        if (!table.TryChange(lease.Record, lease.State, done)
            // Whoever moved `next` has confirmed it.
            && !(lease.State.Kind == LeaseKind.Filling
                && table.TryChange(lease.Record, lease.State.With(LeaseKind.Held, owner), done)))
            return false;
        ProtocolSteps.Reach(ProtocolStep.GroupRangeEnded);
        Ended();
        return true;
    }

    /// <summary>A record has ended: members may wait for one, and producers for the floor.</summary>
    private void Ended()
    {
        Room.WakeIfAwaited();
        // P37 acquire: after the compare-and-swap; pairs with P37 full in ConsumerLimit.
        if (SharedWord.ReadAcquire(store.Control.ProducersMayWait) != 0)
            store.CapacityWake.WakeIfAwaited();
    }

    /// <summary>A single that was being filled gets no message. Whole, it has counted for the floor (models/room.pml).</summary>
    private void Free(int single, LeaseState filling)
    {
        if (table.TryChange(single, filling, LeaseState.Make(LeaseKind.Done, 0, filling.Tag, 0)))
            Ended();
    }

    /// <summary>Gives a message of a lease back, from the range where it is or as the single that it is.</summary>
    /// <param name="lease">The lease.</param>
    /// <param name="message">Which of its messages.</param>
    /// <param name="dueMs">When it may be handed out again; 0: at once.</param>
    /// <param name="counts">Whether the delivery counts.</param>
    public GivingBack GiveBack(GroupLease lease, int message, long dueMs, bool counts)
    {
        int deliveries = counts ? lease.Deliveries : lease.Deliveries - 1;
        if (!lease.IsSingle)
            return GiveBack(lease.Record, lease.Tag, message, lease.Offsets[message], dueMs, deliveries);
        if (!table.TrySetDue(lease.Record, lease.State, dueMs))
            return GivingBack.NotMine;
        table.LowerEarliestDue(dueMs);
        if (!table.TryChange(lease.Record, lease.State, LeaseState.Make(LeaseKind.Waiting, 0, lease.Tag, deliveries)))
            return GivingBack.NotMine;
        Returned(dueMs);
        return GivingBack.Done;
    }

    /// <summary>Give back, for a message of a range that is held under a tag.</summary>
    private GivingBack GiveBack(int range, uint tag, int message, long offset, long dueMs, int deliveries)
    {
        if (!TryTakeSingle(out int single, out LeaseState filling))
            return GivingBack.Full;
        if (PlantedFaults.Has(PlantedFault.GroupBitBeforeContent) && !TryMoveBit(range, tag, message))
            return GivingBack.NotMine;
        table.FillSingle(single, filling.Tag, offset, range, tag, message, dueMs);
        ProtocolSteps.Reach(ProtocolStep.GroupSingleWhole);
        table.LowerEarliestDue(dueMs);
        if (!PlantedFaults.Has(PlantedFault.GroupBitBeforeContent) && !TryMoveBit(range, tag, message))
        {
            Free(single, filling);
            return GivingBack.NotMine;
        }

        ProtocolSteps.Reach(ProtocolStep.GroupBitMoved);
        // Where it fails, whoever has taken the range over has done it.
        table.TryChange(single, filling, LeaseState.Make(LeaseKind.Waiting, 0, filling.Tag, deliveries));
        Returned(dueMs);
        return GivingBack.Done;
    }

    private bool TryMoveBit(int range, uint tag, int message)
    {
        uint bit = 1u << message;
        while (true)
        {
            LeaseBits bits = table.Bits(range);
            if (bits.Tag != tag || (bits.Done & bit) != 0)
                return false;
            if (table.TryChangeBits(range, bits, LeaseBits.Make(tag, bits.Done | bit)))
                return true;
        }
    }

    /// <summary>
    /// Takes the returned message with the lowest offset of those that are due; false when none is.
    /// </summary>
    /// <param name="nowMs">The time.</param>
    /// <param name="lease">Receives it.</param>
    public bool TryTakeReturned(long nowMs, GroupLease lease)
    {
        while (true)
        {
            long givenBack = table.GivenBack;
            long earliest = table.EarliestDue;
            if (earliest > nowMs)
                return false;
            long later = GroupLayout.NoneDue;
            long offset = long.MaxValue;
            int found = -1;
            LeaseState foundState = default;
            foreach ((int single, LeaseState state) in table.Singles)
            {
                if (state.Kind != LeaseKind.Waiting)
                    continue;
                long due = table.Due(single).DueFor(state.Tag);
                if (due > nowMs)
                    later = Math.Min(later, due);
                else if (table.Start(single) < offset)
                    (found, foundState, offset) = (single, state, table.Start(single));
            }

            if (found < 0)
            {
                table.RaiseEarliestDue(earliest, later, givenBack);
                return false;
            }

            LeaseState held = LeaseState.Make(LeaseKind.Held, owner, foundState.Tag + 1, foundState.Deliveries + 1);
            if (!table.TryChange(found, foundState, held))
                continue;
            table.SetSince(found, nowMs);
            ProtocolSteps.Reach(ProtocolStep.GroupSingleHeld);
            (lease.Record, lease.IsSingle, lease.Tag, lease.State) = (found, true, held.Tag, held);
            (lease.Count, lease.Deliveries) = (1, held.Deliveries);
            lease.Offsets[0] = offset;
            return true;
        }
    }

    /// <summary>Whether a returned message may be taken now. If not, the hint is right afterwards, for those that wait.</summary>
    public bool IsAnyDue(long nowMs)
    {
        long givenBack = table.GivenBack;
        long earliest = table.EarliestDue;
        if (earliest > nowMs)
            return false;
        long later = GroupLayout.NoneDue;
        foreach ((int single, LeaseState state) in table.Singles)
        {
            if (state.Kind != LeaseKind.Waiting)
                continue;
            later = Math.Min(later, table.Due(single).DueFor(state.Tag));
            if (later <= nowMs)
                return true;
        }

        table.RaiseEarliestDue(earliest, later, givenBack);
        return false;
    }

    /// <summary>
    /// Looks at the owners of all records, and gives back what the dead have held. Each owner is probed once.
    /// </summary>
    public GroupLook Look()
    {
        _gone.Clear();
        bool hasChanged = false;
        bool othersHold = false;
        foreach ((int range, LeaseState state) in table.Ranges)
        {
            if (state.Kind is not (LeaseKind.Held or LeaseKind.Filling) || state.Owner == owner)
                continue;
            bool isGone = IsGone(state.Owner);
            // After the state: a dead owner moves `next` no more.
            bool isOut = state.Kind == LeaseKind.Held || table.Next.Record == range;
            othersHold |= isOut;
            if (!isGone)
                continue;
            if (isOut)
                TakeOver(range, state);
            else if (table.TryChange(range, state, LeaseState.Done(table.Bits(range).Widen(state.Tag))))
                Ended();
            hasChanged = true;
        }

        foreach ((int single, LeaseState state) in table.Singles)
            LookAtSingle(single, state, ref hasChanged, ref othersHold);
        return new GroupLook(hasChanged, othersHold);
    }

    private void LookAtSingle(int single, LeaseState state, ref bool hasChanged, ref bool othersHold)
    {
        if (state.Kind == LeaseKind.Waiting)
            // Whoever gave it back may have died before this.
            table.LowerEarliestDue(table.Due(single).DueFor(state.Tag));
        if (state.Kind is not (LeaseKind.Held or LeaseKind.Filling) || state.Owner == owner)
            return;
        if (!IsGone(state.Owner))
        {
            othersHold = true;
            return;
        }

        if (state.Kind == LeaseKind.Held)
        {
            // Due now: the due has another tag.
            if (!table.TryChange(single, state, LeaseState.Make(LeaseKind.Waiting, 0, state.Tag + 1, state.Deliveries)))
                return;
            table.Add(GroupLayout.TakenOverAt, 1);
            Returned(dueMs: 0);
            hasChanged = true;
        }
        else if (!table.IsHalfMade(single, state, out _))
        {
            Free(single, state);
            hasChanged = true;
        }
    }

    /// <summary>Takes over what a member has in hand that is alive, because an operator says so.</summary>
    /// <param name="fenced">The member; who gets its slot later is another one.</param>
    /// <returns>How many records it held.</returns>
    public int Fence(uint fenced)
    {
        _gone.Clear();
        int count = 0;
        foreach ((int range, LeaseState state) in table.Ranges)
        {
            if (state.Kind is not (LeaseKind.Held or LeaseKind.Filling) || state.Owner != fenced
                || (state.Kind == LeaseKind.Filling && table.Next.Record != range))
                continue;
            TakeOver(range, state);
            count++;
        }

        foreach ((int single, LeaseState state) in table.Singles)
        {
            if (state.Kind != LeaseKind.Held || state.Owner != fenced
                || !table.TryChange(single, state, LeaseState.Make(LeaseKind.Waiting, 0, state.Tag + 1, state.Deliveries)))
                continue;
            Returned(dueMs: 0);
            count++;
        }

        return count;
    }

    /// <summary>Takes a range over and gives back what is not done.</summary>
    private void TakeOver(int range, LeaseState seen)
    {
        LeaseState held = LeaseState.Make(LeaseKind.Held, owner, seen.Tag + 1, 1);
        if (!table.TryChange(range, seen, held))
            return;
        ProtocolSteps.Reach(ProtocolStep.GroupTakenOver);
        table.Add(GroupLayout.TakenOverAt, 1);
        LeaseState left = held.With(LeaseKind.Held, owner: 0);
        try
        {
            if (TryTurnBits(range, held.Tag, out LeaseBits bits) && TryGiveBackAll(range, bits))
                left = LeaseState.Done(bits.Tag);
        }
        finally
        {
            // What is left waits, held by nobody, for a later look.
            if (table.TryChange(range, held, left) && left.Kind == LeaseKind.Done)
                Ended();
        }

        ProtocolSteps.Reach(ProtocolStep.GroupGivenBack);
    }

    /// <summary>Take over, step 2; false when this member was fenced in turn.</summary>
    private bool TryTurnBits(int range, uint tag, out LeaseBits turned)
    {
        while (true)
        {
            LeaseBits bits = table.Bits(range);
            turned = LeaseBits.Make(bits.Widen(tag), bits.Done);
            if (bits.IsAfter(tag))
                return false;
            if (!table.TryChangeBits(range, bits, turned))
                continue;
            ProtocolSteps.Reach(ProtocolStep.GroupBitsTurned);
            return true;
        }
    }

    /// <summary>
    /// Take over, steps 3 and 4; false when no single is free, or while it is not certain how the log continues after damage.
    /// </summary>
    private bool TryGiveBackAll(int range, LeaseBits bits)
    {
        long start = table.Start(range);
        long end = table.End(range);
        ulong count = table.Count(range);
        if (!GroupScan.IsRange(start, end, count))
            throw GroupScan.Corrupt(file, range, "range", start);
        Span<long> offsets = stackalloc long[GroupLayout.MessagesMax];
        int found = walk(start, end, offsets);
        if (found < 0)
            return false;
        if (found != (int)count && !PlantedFaults.Has(PlantedFault.GroupBitsByCountIgnored))
        {
            // Damage, a removal, or a log that was cut: which bit means which message is not known any longer.
            if (!TryForgetBits(range, bits))
                return true;
            bits = LeaseBits.Make(bits.Tag, 0);
            // None: it ends below. A range of no messages would count as damage to whoever looks before that.
            if (found > 0)
                table.SetCount(range, found);
        }

        if (!PlantedFaults.Has(PlantedFault.GroupHalfMadeForgotten))
            Settle(range, start, end, offsets[..found], bits);
        ProtocolSteps.Reach(ProtocolStep.GroupSettled);
        for (int message = 0; message < found; message++)
        {
            if ((bits.Done & (1u << message)) == 0
                && GiveBack(range, bits.Tag, message, offsets[message], dueMs: 0, deliveries: 1) == GivingBack.Full)
                return false;
        }

        return true;
    }

    private bool TryForgetBits(int range, LeaseBits turned)
    {
        while (true)
        {
            LeaseBits bits = table.Bits(range);
            if (bits.Tag != turned.Tag)
                return false;
            if (table.TryChangeBits(range, bits, LeaseBits.Make(bits.Tag, 0)))
                return true;
        }
    }

    /// <summary>
    /// Take over, step 3: what the owner before, or one before that, has half given back. A single that was filled under an older
    /// tag and whose bit is not set is freed even while its owner lives: the owner cannot set the bit any more, and once this
    /// member has set it for a single of its own, the two could not be told apart.
    /// </summary>
    private void Settle(int range, long start, long end, ReadOnlySpan<long> offsets, LeaseBits bits)
    {
        foreach ((int single, LeaseState state) in table.Singles)
        {
            if (state.Kind != LeaseKind.Filling || state.Owner == owner
                || !table.IsHalfMade(single, state, out SingleContent content) || content.Parent != range)
                continue;
            long message = table.Start(single);
            if (message < start || message >= end)
                continue;
            int at = offsets.BinarySearch(message);
            if (at >= 0 && (bits.Done & (1u << at)) != 0)
            {
                if (table.TryChange(single, state, LeaseState.Make(LeaseKind.Waiting, 0, state.Tag, 1)))
                    Returned(table.Due(single).DueFor(state.Tag));
            }
            else if (bits.IsAfter(content.ParentTag))
            {
                Free(single, state);
            }
        }
    }

    /// <summary>A message waits. With a due to come, those that sleep shorten their sleep.</summary>
    private void Returned(long dueMs)
    {
        ProtocolSteps.Reach(ProtocolStep.GroupReturned);
        table.CountGivenBack();
        table.LowerEarliestDue(dueMs);
        store.Wake.WakeIfAwaited();
        // Members that see only what is on disk.
        store.FlushWake.WakeIfAwaited();
    }

    /// <summary>
    /// Whether nobody can act as this owner any more: no process holds its slot in its generation. An owner that never was is
    /// what damage leaves.
    /// </summary>
    private bool IsGone(uint other)
    {
        if (_gone.TryGetValue(other, out bool isGone))
            return isGone;
        isGone = PlantedFaults.Has(PlantedFault.GroupHolderTakenForDead)
            || store.Claims.OwnerOf(Format.FrameHeader.Make(0, other)) != ClaimOwner.Living;
        return _gone[other] = isGone;
    }

    private bool TryTakeRange(int range)
    {
        LeaseState state = table.State(range);
        // The state first: while it is done under this tag, `next` comes to name it no more.
        if (state.Kind != LeaseKind.Done
            || (table.Next.Record == range && !PlantedFaults.Has(PlantedFault.GroupNamedReused)))
            return false;
        table.RaiseUsed(range + 1, 0);
        uint tag = state.WholeTag + 1;
        LeaseState filling = LeaseState.Make(LeaseKind.Filling, owner, tag, 1);
        if (!table.TryChange(range, state, filling))
            return false;
        ProtocolSteps.Reach(ProtocolStep.GroupRangeTaken);
        (_free, _freeState, _freeTag) = (range, filling, tag);
        return true;
    }

    private bool TryTakeSingle(out int single, out LeaseState filling)
    {
        // As for ranges: those that were used before, then one more.
        int used = table.UsedSingles;
        for (int i = 0; i < GroupLayout.SingleCount; i++)
        {
            int number = i < used ? (_single + i) % used : i;
            single = GroupTable.Single(number);
            LeaseState state = table.State(single);
            if (state.Kind != LeaseKind.Done)
                continue;
            table.RaiseUsed(0, number + 1);
            filling = LeaseState.Make(LeaseKind.Filling, owner, state.Tag + 1, 0);
            if (!table.TryChange(single, state, filling))
                continue;
            ProtocolSteps.Reach(ProtocolStep.GroupSingleTaken);
            _single = number + 1;
            return true;
        }

        (single, filling) = (-1, default);
        return false;
    }
}

/// <summary>What a look at all owners found.</summary>
/// <param name="HasChanged">Something was given back, or freed.</param>
/// <param name="OthersHold">Other members have messages in hand: one of them may die, and wakes nobody then.</param>
internal readonly record struct GroupLook(bool HasChanged, bool OthersHold);

/// <summary>
/// Finds the messages of a range again, for whoever takes it over: those that begin from one offset to another. Returns how many,
/// at most as many as there is room. Negative when some of them cannot be found yet.
/// </summary>
internal delegate int RangeWalk(long start, long end, Span<long> offsets);

using System.Diagnostics;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// The mapped words of a group. Ranges have the records 0 to 8,191; single n is record 8,192 + n. Who writes what:
/// <list type="bullet">
/// <item>`next`, the states and the bits change by compare-and-swap, from exactly what was read;</item>
/// <item>a record's other words are written by its living owner only, while the state says filling, or for a single held;</item>
/// <item>the rest are hints and counters.</item>
/// </list>
/// </summary>
internal sealed unsafe class GroupTable(MappedRegion region)
{
    private readonly byte* _start = region.Pointer;

    /// <summary>The record of a single.</summary>
    public static int Single(int number) => GroupLayout.RangeCount + number;

    public static bool IsSingle(int record) => record >= GroupLayout.RangeCount;

    public ulong* RoomSequence => Word(GroupLayout.RoomSequenceAt);

    public ulong* RoomFlag => Word(GroupLayout.RoomFlagAt);

    /// <summary>The head of the page.</summary>
    public ReadOnlySpan<byte> Head => new(_start, GroupLayout.HeadLength);

    // P50 acquire: then the words of its record; pairs with P50 full in TryMoveNext.
    public NextWord Next => new(SharedWord.ReadAcquire(Word(GroupLayout.NextAt)));

    /// <summary>The hand-out itself.</summary>
    // P50 full: the record's words come first; pairs with P50 acquire in Next.
    public bool TryMoveNext(NextWord from, NextWord to) =>
        SharedWord.CompareExchange(Word(GroupLayout.NextAt), from.Word, to.Word);

    // P51 acquire: pairs with P51 full in TryChange.
    public LeaseState State(int record) => new(SharedWord.ReadAcquire(Word(record, GroupLayout.StateIn)));

    /// <summary>One of several members that saw the same state gets the record.</summary>
    // P51 full: from exactly what was read; pairs with P51 acquire in State.
    public bool TryChange(int record, LeaseState from, LeaseState to) =>
        SharedWord.CompareExchange(Word(record, GroupLayout.StateIn), from.Word, to.Word);

    // P52 acquire: pairs with P52 full in TryChangeBits.
    public LeaseBits Bits(int range) => new(SharedWord.ReadAcquire(Word(range, GroupLayout.BitsIn)));

    /// <summary>Ends, or moves, messages of a range: this decides.</summary>
    // P52 full: a single's content comes first; pairs with P52 acquire in Bits.
    public bool TryChangeBits(int range, LeaseBits from, LeaseBits to) =>
        SharedWord.CompareExchange(Word(range, GroupLayout.BitsIn), from.Word, to.Word);

    // P53 acquire: pairs with P53 release in FillRange and FillSingle.
    public long Start(int record) => (long)SharedWord.ReadAcquire(Word(record, GroupLayout.StartIn));

    // P53 acquire: pairs with P53 release in FillRange.
    public long End(int range) => (long)SharedWord.ReadAcquire(Word(range, GroupLayout.EndIn));

    // P53 acquire: pairs with P53 release in FillRange and SetCount.
    public ulong Count(int range) => SharedWord.ReadAcquire(Word(range, GroupLayout.ContentIn));

    // P53 acquire: then the message and the due; pairs with P53 release in FillSingle.
    public SingleContent Content(int single) => new(SharedWord.ReadAcquire(Word(single, GroupLayout.ContentIn)));

    /// <summary>
    /// Whether a single that is being filled is whole, and its range still holds messages: then whoever takes the range over
    /// settles it.
    /// </summary>
    public bool IsHalfMade(int single, LeaseState state, out SingleContent content)
    {
        content = Content(single);
        if (content.OwnTag != state.Tag || content.Parent >= GroupLayout.RangeCount
            || State(content.Parent).Kind == LeaseKind.Done)
            return false;
        long message = Start(single);
        return message >= Start(content.Parent) && message < End(content.Parent);
    }

    // P53 acquire: pairs with P53 release in SetDue and P53 full in TrySetDue.
    public DueWord Due(int single) => new(SharedWord.ReadAcquire(Word(single, GroupLayout.DueIn)));

    /// <summary>Since when a record is out, in monotonic milliseconds; for people.</summary>
    public long Since(int record) => (long)SharedWord.ReadAcquire(Word(record, GroupLayout.SinceIn)); // P55 relaxed: information.

    /// <summary>The place of a single's message in its range; negative when nobody knows.</summary>
    // P53 acquire: pairs with P53 release in FillSingle.
    public int Place(int single) => (int)(SharedWord.ReadAcquire(Word(single, GroupLayout.PlaceIn)) & 0xFF) - 1;

    /// <summary>Everything about a range that is being filled, before `next` names it.</summary>
    public void FillRange(int range, uint tag, long start, long end, int count, long sinceMs)
    {
        // P53 release: not before the state says filling; pairs with P53 acquire in Start.
        SharedWord.WriteRelease(Word(range, GroupLayout.StartIn), (ulong)start);
        // P53 release: pairs with P53 acquire in End.
        SharedWord.WriteRelease(Word(range, GroupLayout.EndIn), (ulong)end);
        // P53 release: pairs with P53 acquire in Count.
        SharedWord.WriteRelease(Word(range, GroupLayout.ContentIn), (ulong)count);
        // P52 release: nobody else changes the bits of a record that is being filled; pairs with P52 acquire in Bits.
        SharedWord.WriteRelease(Word(range, GroupLayout.BitsIn), LeaseBits.Make(tag, 0).Word);
        SetSince(range, sinceMs);
    }

    /// <summary>The owner of a held range has found another number of messages in it.</summary>
    // P53 release: after its bits were cleared; pairs with P53 acquire in Count.
    public void SetCount(int range, int count) => SharedWord.WriteRelease(Word(range, GroupLayout.ContentIn), (ulong)count);

    /// <summary>The content of a single that is being filled; its own tag makes it valid, and comes last.</summary>
    public void FillSingle(int single, uint tag, long message, int parent, uint parentTag, int place, long dueMs)
    {
        // P53 release: before the tag; pairs with P53 acquire in Start.
        SharedWord.WriteRelease(Word(single, GroupLayout.StartIn), (ulong)message);
        // P53 release: before the tag; pairs with P53 acquire in Place.
        SharedWord.WriteRelease(Word(single, GroupLayout.PlaceIn), (ulong)place + 1);
        SetDue(single, tag, dueMs);
        ProtocolSteps.Reach(ProtocolStep.GroupSingleFilled);
        // P53 release: after everything else; pairs with P53 acquire in Content.
        SharedWord.WriteRelease(Word(single, GroupLayout.ContentIn), SingleContent.Make(parent, tag, parentTag).Word);
    }

    // P53 release: before the state that the tag belongs to; pairs with P53 acquire in Due.
    public void SetDue(int single, uint tag, long dueMs) =>
        SharedWord.WriteRelease(Word(single, GroupLayout.DueIn), DueWord.Make(tag, dueMs).Word);

    /// <summary>
    /// The due of a single that is held, if it still is: a member that was fenced must not write over the due that the next
    /// holder has given back. Only holders change the due, each under a tag of its own, so what was read before the state has not
    /// changed as long as the state has not.
    /// </summary>
    public bool TrySetDue(int single, LeaseState held, long dueMs)
    {
        while (true)
        {
            DueWord before = Due(single);
            if (State(single) != held)
                return false;
            // P53 full: before the state that the tag belongs to; pairs with P53 acquire in Due.
            if (SharedWord.CompareExchange(Word(single, GroupLayout.DueIn), before.Word, DueWord.Make(held.Tag, dueMs).Word))
                return true;
        }
    }

    public void SetSince(int record, long sinceMs) =>
        SharedWord.WriteRelease(Word(record, GroupLayout.SinceIn), (ulong)sinceMs); // P55 relaxed: information.

    /// <summary>No returned message is due before it, as far as this hint goes; a look mends it.</summary>
    // P54 acquire: pairs with P54 full in LowerEarliestDue.
    public long EarliestDue => (long)SharedWord.ReadAcquire(Word(GroupLayout.EarliestDueAt));

    /// <summary>A message is due then: members that find it later need not scan before.</summary>
    public void LowerEarliestDue(long dueMs)
    {
        while (true)
        {
            long now = EarliestDue;
            // P54 full: before and after the single waits; pairs with P54 acquire in EarliestDue.
            if (now <= dueMs
                || SharedWord.CompareExchange(Word(GroupLayout.EarliestDueAt), (ulong)now, (ulong)dueMs))
                return;
        }
    }

    /// <summary>
    /// A scan that began when the hint said <paramref name="from"/> has found a later one. Whoever has given a message back since
    /// then may have found the hint low, and left it.
    /// </summary>
    /// <param name="from">The hint before the scan.</param>
    /// <param name="to">The earliest due that it has found.</param>
    /// <param name="givenBack"><see cref="GivenBack"/> before the scan.</param>
    public void RaiseEarliestDue(long from, long to, long givenBack)
    {
        // P54 full: only what was read before the scan; pairs with P54 acquire in EarliestDue.
        if (SharedWord.CompareExchange(Word(GroupLayout.EarliestDueAt), (ulong)from, (ulong)to) && GivenBack != givenBack)
            LowerEarliestDue(from);
    }

    /// <summary>How many messages wait again, or did; counted before the hint is lowered for them.</summary>
    // P54 acquire: pairs with P54 full in CountGivenBack.
    public long GivenBack => (long)SharedWord.ReadAcquire(Word(GroupLayout.GivenBackAt));

    // P54 full: after the single waits; pairs with P54 acquire in GivenBack.
    public void CountGivenBack() => SharedWord.Add(Word(GroupLayout.GivenBackAt), 1);

    /// <summary>Ranges below it were used.</summary>
    public int UsedRanges => (int)Math.Min((uint)Used, GroupLayout.RangeCount);

    /// <summary>Singles below it were used. Read it after the ranges: messages move from there.</summary>
    public int UsedSingles => (int)Math.Min(Used >> 32, GroupLayout.SingleCount);

    /// <summary>Before a record beyond them is taken, so that no scan misses it.</summary>
    public void RaiseUsed(int ranges, int singles)
    {
        while (true)
        {
            ulong now = Used;
            ulong to = Math.Max((uint)now, (uint)ranges) | ((ulong)Math.Max((uint)(now >> 32), (uint)singles) << 32);
            // P54 full: before the record is taken; pairs with P54 acquire in Used.
            if (to == now || SharedWord.CompareExchange(Word(GroupLayout.UsedAt), now, to))
                return;
        }
    }

    /// <summary>One of the three counters.</summary>
    public long Counter(int position) => (long)SharedWord.ReadAcquire(Word(position)); // P55 relaxed: information.

    public void Add(int position, int count) =>
        SharedWord.Add(Word(position), (ulong)count); // P55 relaxed: information.

    /// <summary>The ranges that were ever used, each with its state when it comes.</summary>
    public Records Ranges => new(this, 0, UsedRanges);

    /// <summary>The singles that were ever used, each with its state when it comes.</summary>
    public Records Singles => new(this, GroupLayout.RangeCount, UsedSingles);

    // P54 acquire: pairs with P54 full in RaiseUsed.
    private ulong Used => SharedWord.ReadAcquire(Word(GroupLayout.UsedAt));

    private ulong* Word(int record, int position)
    {
        Debug.Assert(record is >= 0 and < GroupLayout.RangeCount + GroupLayout.SingleCount, "Checked where it was read.");
        return Word(GroupLayout.RecordAt(record) + position);
    }

    private ulong* Word(int position) => (ulong*)(_start + position);

    public struct Records(GroupTable table, int first, int count)
    {
        private int _record = first - 1;

        public readonly (int Record, LeaseState State) Current => (_record, table.State(_record));

        public readonly Records GetEnumerator() => this;

        public bool MoveNext() => ++_record < first + count;
    }
}

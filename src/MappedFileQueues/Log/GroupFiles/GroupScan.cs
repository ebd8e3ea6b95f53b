using System.Runtime.InteropServices;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// Looks over all records of a group while members work. The order counts: `next`, the ranges, then the singles. Messages move
/// from ranges to singles only, so none is missed (models/lease.pml, variant singles-before-ranges).
/// </summary>
internal static class GroupScan
{
    /// <summary>Everything before it is done.</summary>
    public static long FindFloor(GroupTable table, string file)
    {
        long floor = long.MaxValue;
        long end = Scan(table, file, lease => floor = Math.Min(floor, lease.Start));
        return Math.Min(floor, end);
    }

    /// <summary>What is to be saved.</summary>
    /// <param name="table">The group.</param>
    /// <param name="file">Its file.</param>
    /// <param name="epoch">The epoch of its offsets.</param>
    /// <param name="clock">Turns dues into times of day.</param>
    public static SavedGroup Save(GroupTable table, string file, long epoch, GroupClock clock)
    {
        List<SavedLease> ranges = [];
        List<SavedLease> singles = [];
        long end = Scan(table, file, lease =>
        {
            if (!lease.IsSingle)
                ranges.Add(lease);
            else
                singles.Add(lease.DueMs > 0 ? lease with { DueMs = clock.ToUtc(lease.DueMs) } : lease);
        });
        ranges.Sort(static (a, b) => a.Start.CompareTo(b.Start));
        Span<SavedLease> saved = CollectionsMarshal.AsSpan(ranges);
        // A member that was fenced may be about to give a message back that somebody else has given back too.
        Dictionary<long, SavedLease> once = [];
        foreach (SavedLease single in singles)
        {
            MarkMoved(saved, single);
            if (!once.TryGetValue(single.Start, out SavedLease other) || other.Deliveries < single.Deliveries)
                once[single.Start] = single with { Done = 0 };
        }

        return new SavedGroup(epoch, end, [.. ranges, .. once.Values]);
    }

    /// <summary>
    /// A message may have moved since its range was read. It is saved as the single that it is by now: in both it would come
    /// twice.
    /// </summary>
    private static void MarkMoved(Span<SavedLease> ranges, SavedLease single)
    {
        int low = 0;
        int high = ranges.Length;
        while (low < high)
        {
            int middle = (low + high) / 2;
            (low, high) = ranges[middle].End <= single.Start ? (middle + 1, high) : (low, middle);
        }

        if (low < ranges.Length && ranges[low].Start <= single.Start)
            ranges[low] = ranges[low] with { Done = ranges[low].Done | single.Done };
    }

    /// <summary>Goes over all that is not done; dues are on the monotonic clock. Returns the end of the last hand-out.</summary>
    /// <exception cref="QueueCorruptException">A word that cannot be.</exception>
    private static long Scan(GroupTable table, string file, Action<SavedLease> found)
    {
        if (PlantedFaults.Has(PlantedFault.GroupFloorSinglesFirst))
            ScanSingles(table, file, long.MaxValue, found);
        NextWord next = ReadNext(table, file, out _, out long end);
        ProtocolSteps.Reach(ProtocolStep.GroupNextScanned);
        int used = table.UsedRanges;
        for (int range = 0; range < used; range++)
        {
            if (ReadRange(table, file, range, next) is { } lease && lease.Start < end)
                found(lease);
        }

        ProtocolSteps.Reach(ProtocolStep.GroupRangesScanned);
        if (!PlantedFaults.Has(PlantedFault.GroupFloorSinglesFirst))
            ScanSingles(table, file, end, found);
        return end;
    }

    /// <summary>
    /// What a range holds; null when nothing of it is out. One that is being filled is out once `next` names it, and only the
    /// hand-out that was read counts here: a later one begins where that one ends.
    /// </summary>
    private static SavedLease? ReadRange(GroupTable table, string file, int range, NextWord next)
    {
        while (true)
        {
            LeaseState state = table.State(range);
            if (state.Kind != LeaseKind.Held && (state.Kind != LeaseKind.Filling || range != next.Record))
                return null;
            // Once `next` has moved on, the one that it named was confirmed: a record that is still filling is in use anew, and
            // its start may be the one from before (models/lease.pml, variant next-not-read-again).
            if (state.Kind == LeaseKind.Filling && table.Next != next && table.State(range) == state)
                return null;
            long start = table.Start(range);
            long end = table.End(range);
            ulong count = table.Count(range);
            uint done = table.Bits(range).Done;
            // It may have ended, and be in use again, between two of these looks.
            if (table.State(range) != state)
                continue;
            return IsRange(start, end, count)
                ? new SavedLease(start, end, done, (int)count, 0, 0)
                : throw Corrupt(file, range, "range", start);
        }
    }

    /// <summary>Whether a range can hold these.</summary>
    public static bool IsRange(long start, long end, ulong count) => GroupLayout.IsOffset(start) && GroupLayout.IsOffset(end)
        && end >= start && count is >= 1 and <= GroupLayout.MessagesMax;

    private static void ScanSingles(GroupTable table, string file, long end, Action<SavedLease> found)
    {
        int used = table.UsedSingles;
        for (int number = 0; number < used; number++)
        {
            if (ReadSingle(table, file, GroupTable.Single(number)) is { } lease && lease.Start < end)
                found(lease);
        }
    }

    /// <summary>
    /// The message of a single; null when it has none. Until a single that is being filled is whole, the message is its range's;
    /// afterwards the single may be all that is left of it. When the range has ended it is nothing: its owner was fenced, and the
    /// message went another way.
    /// </summary>
    private static SavedLease? ReadSingle(GroupTable table, string file, int single)
    {
        while (true)
        {
            LeaseState state = table.State(single);
            if (state.Kind == LeaseKind.Done)
                return null;
            if (state.Kind == LeaseKind.Filling && !table.IsHalfMade(single, state, out _) && table.State(single) == state)
                return null;
            long message = table.Start(single);
            long due = table.Due(single).DueFor(state.Tag);
            int place = table.Place(single);
            if (table.State(single) != state)
                continue;
            // Its bit in its range.
            uint bit = place is >= 0 and < GroupLayout.MessagesMax ? 1u << place : 0;
            return GroupLayout.IsOffset(message)
                ? new SavedLease(message, 0, bit, 0, state.Deliveries, due)
                : throw Corrupt(file, single, "single", message);
        }
    }

    /// <summary>Where everything up to is handed out; read between two equal reads of `next`.</summary>
    /// <exception cref="QueueCorruptException">It names no record, or an end that cannot be.</exception>
    public static NextWord ReadNext(GroupTable table, string file, out LeaseState state, out long end)
    {
        while (true)
        {
            NextWord next = table.Next;
            if (next.Record >= GroupLayout.RangeCount)
                throw Corrupt(file, next.Record, "record of the last hand-out", next.Record);
            // Between the two looks: later it may be that of another use of the record, which was never confirmed.
            state = table.State(next.Record);
            end = table.End(next.Record);
            if (table.Next != next)
                continue;
            return GroupLayout.IsOffset(end) ? next : throw Corrupt(file, next.Record, "end of the last hand-out", end);
        }
    }

    public static QueueCorruptException Corrupt(string file, int record, string what, long value) => new(
        $"The group's file is damaged: {what}={value}, record={record}, file={file}. Reset the group.",
        file, (uint)record < GroupLayout.RangeCount + GroupLayout.SingleCount
            ? GroupLayout.RecordAt(record)
            : GroupLayout.NextAt);
}

/// <summary>
/// The clock of dues: monotonic milliseconds, which all processes of a boot share, and their times of day for what a boot
/// outlives.
/// </summary>
internal readonly struct GroupClock(TimeProvider time)
{
    /// <summary>The longest delay of a message that is given back.</summary>
    public static readonly TimeSpan DelayMax = TimeSpan.FromDays(30);

    private static readonly long s_lead = OperatingSystem.IsLinux() ? ProcFiles.ReadMonotonicLead() : 0;

    public long NowMs => (long)(time.GetTimestamp() * (1000.0 / time.TimestampFrequency))
        - (ReferenceEquals(time, TimeProvider.System) ? s_lead : 0);

    public long ToUtc(long dueMs) => time.GetUtcNow().ToUnixTimeMilliseconds() + dueMs - NowMs;

    /// <summary>
    /// Where a day more is left than any delay takes, this clock is behind the one that told it, and nobody knows what is left.
    /// </summary>
    public long FromUtc(long dueMs)
    {
        long left = dueMs - time.GetUtcNow().ToUnixTimeMilliseconds();
        return left > (DelayMax + TimeSpan.FromDays(1)).TotalMilliseconds ? 1 : Math.Max(1, NowMs + left);
    }
}

using System.Numerics;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Inspection;

/// <summary>Gathers the state of a store's groups from their files, by reading only.</summary>
internal static class GroupStatus
{
    /// <param name="directory">The store.</param>
    /// <param name="storeId">Its id.</param>
    /// <param name="published">The end of the published messages.</param>
    /// <param name="lag">Counts messages, and tells how old they are.</param>
    /// <param name="problems">Receives those that cannot be read.</param>
    /// <param name="time">Tells when those that wait are due.</param>
    public static List<MappedFileGroupInfo> Find(
        HeldDirectory directory, Guid storeId, long published, ConsumerLag lag, List<StoredCursor> problems, TimeProvider time)
    {
        List<MappedFileGroupInfo> groups = [];
        foreach (string name in GroupFile.Names(directory))
        {
            string file = StoreNames.Group(name);
            try
            {
                using MappedRegion? region = GroupFile.MapForReading(directory, storeId, file);
                if (region is not null)
                    groups.Add(Describe(directory, new GroupTable(region), name, published, lag, new GroupClock(time)));
            }
            catch (Exception error) when (error is QueueDiskException or QueueCorruptException)
            {
                problems.Add(new StoredCursor(file, null, error));
            }
        }

        return groups;
    }

    private static MappedFileGroupInfo Describe(
        HeldDirectory directory, GroupTable table, string name, long published, ConsumerLag lag, GroupClock clock)
    {
        string file = StoreNames.Group(name);
        long floor = GroupScan.FindFloor(table, file);
        NextWord next = GroupScan.ReadNext(table, file, out _, out long end);
        Dictionary<uint, (int Held, long Since)> owners = [];
        int returned = 0;
        long due = long.MaxValue;
        foreach ((int range, LeaseState state) in table.Ranges)
        {
            if (state.Kind == LeaseKind.Held || (state.Kind == LeaseKind.Filling && next.Record == range))
                Note(owners, state, BitOperations.PopCount(
                    LeaseBits.Mask((int)Math.Min(table.Count(range), GroupLayout.MessagesMax)) & ~table.Bits(range).Done),
                    table.Since(range));
        }

        foreach ((int single, LeaseState state) in table.Singles)
        {
            if (state.Kind == LeaseKind.Held)
                Note(owners, state, 1, table.Since(single));
            if (state.Kind != LeaseKind.Waiting)
                continue;
            returned++;
            due = Math.Min(due, table.Due(single).DueFor(state.Tag));
        }

        return new MappedFileGroupInfo
        {
            Name = name,
            NextOffset = end,
            FloorOffset = floor,
            Lag = Math.Max(0, published - floor),
            LagMessages = lag.CountFrom(floor),
            LagTime = lag.AgeFrom(floor),
            OutCount = owners.Values.Sum(owner => owner.Held),
            ReturnedCount = returned,
            NextDue = returned == 0 ? null : DateTimeOffset.FromUnixTimeMilliseconds(clock.ToUtc(Math.Max(due, 1))),
            GivenBackCount = table.Counter(GroupLayout.GivenBackAt),
            DeadLetteredCount = table.Counter(GroupLayout.DeadLetteredAt),
            TakenOverCount = table.Counter(GroupLayout.TakenOverAt),
            Members = [.. owners.OrderBy(owner => owner.Key).Select(owner => Describe(directory, clock, owner.Key, owner.Value))],
        };
    }

    private static void Note(Dictionary<uint, (int Held, long Since)> owners, LeaseState state, int count, long since)
    {
        (int held, long oldest) = owners.GetValueOrDefault(state.Owner, (0, long.MaxValue));
        owners[state.Owner] = (held + count, Math.Min(oldest, since));
    }

    private static MappedFileGroupMemberInfo Describe(
        HeldDirectory directory, GroupClock clock, uint owner, (int Held, long Since) held)
    {
        (uint generation, int processId) = StoreStatus.ReadSlot(directory, SlotLayout.Slot(owner))
            ?? (SlotLayout.Generation(owner), 0);
        ClaimOwner? known = StoreStatus.TryFindOwner(directory, FrameHeader.Make(0, owner), generation);
        return new MappedFileGroupMemberInfo
        {
            Slot = owner == 0 ? -1 : SlotLayout.Slot(owner),
            ProcessId = owner == 0 ? 0 : processId,
            IsAlive = known is null ? null : known == ClaimOwner.Living,
            HeldCount = held.Held,
            HeldFor = TimeSpan.FromMilliseconds(Math.Clamp(clock.NowMs - held.Since, 0, int.MaxValue)),
        };
    }
}

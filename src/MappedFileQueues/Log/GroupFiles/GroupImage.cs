using System.Buffers.Binary;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// The first bytes of a group's table: what was saved, held by nobody. The first member that looks takes it over, as from a dead
/// owner.
/// </summary>
internal static class GroupImage
{
    private const uint FirstTag = 1;

    /// <summary>Fills an empty file, and allocates all of its blocks.</summary>
    public static void Write(PlatformFile file, Guid storeId, SavedGroup group, DateTimeOffset made, GroupClock clock)
    {
        SavedLease[] ranges = [.. group.Leases.Where(lease => !lease.IsSingle).OrderByDescending(lease => lease.End)];
        SavedLease[] singles = [.. group.Leases.Where(lease => lease.IsSingle).Take(GroupLayout.SingleCount)];
        // `next` names record 0: a done one, or where there are as many ranges as records, the last hand-out.
        bool isFull = ranges.Length >= GroupLayout.RangeCount;
        int first = isFull ? 0 : 1;
        int used = Math.Min(first + ranges.Length, GroupLayout.RangeCount);
        byte[] page = new byte[GroupLayout.RecordAt(used)];
        GroupLayout.MakeHead(storeId, made).CopyTo(page, 0);
        Put(page, GroupLayout.NextAt, NextWord.Make(0, 1).Word);
        Put(page, GroupLayout.EarliestDueAt, singles.Length == 0 ? (ulong)GroupLayout.NoneDue : 0);
        Put(page, GroupLayout.UsedAt, (uint)used | ((ulong)singles.Length << 32));
        PutRange(page, 0, new SavedLease(group.NextEnd, group.NextEnd, 0, 0, 0, 0));
        for (int i = 0; first + i < used; i++)
            PutRange(page, first + i, ranges[i]);
        byte[] returned = new byte[singles.Length * GroupLayout.RecordLength];
        for (int i = 0; i < singles.Length; i++)
            PutSingle(returned.AsSpan(i * GroupLayout.RecordLength), singles[i], clock);
        file.SetLength(GroupLayout.FileLength);
        file.Allocate(0, GroupLayout.FileLength);
        file.WriteAt(page, 0);
        if (returned.Length > 0)
            file.WriteAt(returned, GroupLayout.RecordAt(GroupTable.Single(0)));
    }

    private static void PutRange(Span<byte> page, int range, SavedLease lease)
    {
        Span<byte> record = page[GroupLayout.RecordAt(range)..];
        Put(record, GroupLayout.StartIn, (ulong)lease.Start);
        Put(record, GroupLayout.EndIn, (ulong)lease.End);
        if (lease.Count == 0)
            return;
        Put(record, GroupLayout.StateIn, LeaseState.Make(LeaseKind.Held, owner: 0, FirstTag, deliveries: 1).Word);
        Put(record, GroupLayout.BitsIn, LeaseBits.Make(FirstTag, lease.Done).Word);
        Put(record, GroupLayout.ContentIn, (ulong)lease.Count);
    }

    private static void PutSingle(Span<byte> record, SavedLease lease, GroupClock clock)
    {
        Put(record, GroupLayout.StateIn, LeaseState.Make(LeaseKind.Waiting, owner: 0, FirstTag, lease.Deliveries).Word);
        Put(record, GroupLayout.StartIn, (ulong)lease.Start);
        Put(record, GroupLayout.ContentIn, SingleContent.Make(parent: 0, FirstTag, parentTag: 0).Word);
        Put(record, GroupLayout.DueIn, DueWord.Make(FirstTag, lease.DueMs == 0 ? 0 : clock.FromUtc(lease.DueMs)).Word);
    }

    private static void Put(Span<byte> bytes, int position, ulong word) =>
        BinaryPrimitives.WriteUInt64LittleEndian(bytes[position..], word);
}

using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format.Groups;

/// <summary>What one record of a group held when the group was saved.</summary>
/// <param name="Start">A range: where its messages begin. A single: its message.</param>
/// <param name="End">A range: after its last message. A single: 0.</param>
/// <param name="Done">A bit for each message of the range that is done.</param>
/// <param name="Count">A range: the number of its messages. A single: 0.</param>
/// <param name="Deliveries">How often a single's message was handed out.</param>
/// <param name="DueMs">When a single is due, in milliseconds since 1970 UTC; 0: now.</param>
internal readonly record struct SavedLease(long Start, long End, uint Done, int Count, int Deliveries, long DueMs)
{
    public bool IsSingle => Count == 0;
}

/// <summary>
/// `offset/groups/NAME.saved`: what a power loss leaves of a group. The mapped file is written back page by page at any time, so
/// after a power loss its parts belong to different moments, and it is not believed. This file is written as a whole.
/// <code>
///  0 "MFQGRPS1"   8 store id (16)   24 epoch   32 end of the last hand-out   40 number of records (4)   44 zero   64 records
/// record, 32 bytes: 0 start   8 end   16 done bits (4)   20 count (1; 0 for a single)   21 deliveries (1)   24 due, UTC ms
/// the last 4 bytes: CRC-32C of all before
/// </code>
/// </summary>
/// <param name="Epoch">The epoch of its offsets.</param>
/// <param name="NextEnd">Everything before it was handed out.</param>
/// <param name="Leases">Every record that was not done.</param>
internal sealed record SavedGroup(long Epoch, long NextEnd, IReadOnlyList<SavedLease> Leases)
{
    /// <summary>"MFQGRPS1", little-endian.</summary>
    public const ulong Magic = 0x3153_5052_4751_464D;

    private const int HeadLength = 64;
    private const int LeaseLength = 32;
    private const int LeasesMax = GroupLayout.RangeCount + GroupLayout.SingleCount;

    /// <summary>The longest file.</summary>
    public const int LengthMax = HeadLength + (LeasesMax * LeaseLength) + sizeof(uint);

    /// <summary>Everything before it is done.</summary>
    public long Floor => Leases.Aggregate(NextEnd, (least, lease) => Math.Min(least, lease.Start));

    public byte[] ToBytes(Guid storeId)
    {
        byte[] bytes = new byte[HeadLength + (Leases.Count * LeaseLength) + sizeof(uint)];
        BinaryPrimitives.WriteUInt64LittleEndian(bytes, Magic);
        storeId.TryWriteBytes(bytes.AsSpan(8));
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(24), Epoch);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(32), NextEnd);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(40), Leases.Count);
        for (int i = 0; i < Leases.Count; i++)
        {
            SavedLease lease = Leases[i];
            Span<byte> at = bytes.AsSpan(HeadLength + (i * LeaseLength), LeaseLength);
            BinaryPrimitives.WriteInt64LittleEndian(at, lease.Start);
            BinaryPrimitives.WriteInt64LittleEndian(at[8..], lease.End);
            BinaryPrimitives.WriteUInt32LittleEndian(at[16..], lease.Done);
            at[20] = (byte)lease.Count;
            at[21] = (byte)lease.Deliveries;
            BinaryPrimitives.WriteInt64LittleEndian(at[24..], lease.DueMs);
        }

        Crc32C.Seal(bytes);
        return bytes;
    }

    /// <summary>The group; null when the bytes are torn, damaged, or of another store.</summary>
    public static SavedGroup? Parse(ReadOnlySpan<byte> bytes, Guid storeId)
    {
        if (bytes.Length < HeadLength + sizeof(uint)
            || BinaryPrimitives.ReadUInt64LittleEndian(bytes) != Magic
            || !Crc32C.IsSealed(bytes)
            || new Guid(bytes.Slice(8, 16)) != storeId)
            return null;
        long end = BinaryPrimitives.ReadInt64LittleEndian(bytes[32..]);
        int count = BinaryPrimitives.ReadInt32LittleEndian(bytes[40..]);
        if (!GroupLayout.IsOffset(end) || (uint)count > LeasesMax
            || bytes.Length != HeadLength + (count * LeaseLength) + sizeof(uint))
            return null;
        var leases = new SavedLease[count];
        for (int i = 0; i < count; i++)
        {
            ReadOnlySpan<byte> at = bytes.Slice(HeadLength + (i * LeaseLength), LeaseLength);
            leases[i] = new SavedLease(
                BinaryPrimitives.ReadInt64LittleEndian(at),
                BinaryPrimitives.ReadInt64LittleEndian(at[8..]),
                BinaryPrimitives.ReadUInt32LittleEndian(at[16..]),
                at[20],
                at[21],
                BinaryPrimitives.ReadInt64LittleEndian(at[24..]));
            if (!IsPossible(leases[i]))
                return null;
        }

        return new SavedGroup(BinaryPrimitives.ReadInt64LittleEndian(bytes[24..]), end, leases);
    }

    /// <summary>
    /// The group in a log that ends at a tail: nothing of it is at or after the tail. Otherwise messages that are appended later
    /// would count as handed out.
    /// </summary>
    /// <param name="tail">The tail.</param>
    /// <param name="countMessages">The messages from one frame's start to another; null when nobody knows.</param>
    public SavedGroup ClampTo(long tail, Func<long, long, long?> countMessages) => new(Epoch, Math.Min(NextEnd, tail),
        [.. Leases.Where(lease => lease.Start < tail).Select(lease => Clamp(lease, tail, countMessages)).OfType<SavedLease>()]);

    /// <summary>With the number of messages that are left, its bits mean what they did.</summary>
    private static SavedLease? Clamp(SavedLease lease, long tail, Func<long, long, long?> countMessages)
    {
        if (lease.IsSingle || lease.End <= tail)
            return lease with { End = Math.Min(lease.End, tail) };
        long count = countMessages(lease.Start, tail) ?? lease.Count;
        return count == 0 ? null : lease with { End = tail, Count = (int)Math.Min(count, lease.Count) };
    }

    private static bool IsPossible(SavedLease lease) => GroupLayout.IsOffset(lease.Start) && GroupLayout.IsOffset(lease.End)
        && lease.Count <= GroupLayout.MessagesMax && (lease.IsSingle || lease.End >= lease.Start)
        && lease.Deliveries <= LeaseState.DeliveriesMax;
}

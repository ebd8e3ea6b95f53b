using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format.Groups;

/// <summary>
/// `offset/groups/NAME.group`: a page, then 8,192 records of ranges and 8,192 of single messages, all mapped by every member.
/// <code>
/// page        0 "MFQGROUP"   8 version   12 kind: 1 leases   16 store id   32 made, ms since 1970   60 CRC-32C of 0-59
///           128 next: bits 0-15 the record of the last hand-out, 16-63 sequence
///           256 earliest due: when a returned message is due first, a hint
///           384 used: bits 0-31 ranges below this were used, 32-63 singles; raised only
///           512 room wake sequence     640 room waiter flag (members that wait for a free record)
///           768 given back   776 dead-lettered   784 taken over (counters)
/// 4096 + 64 n             range n: up to 32 messages that were handed out together, for the first time
/// 4096 + 64 (8192 + n)    single n: one message that came back
/// record      0 state (<see cref="LeaseState"/>)   8 bits of a range (<see cref="LeaseBits"/>)
///            16 start: where a range's first message is searched; a single's message
///            24 end: after a range's last message
///            32 a range: number of messages; a single: <see cref="SingleContent"/>
///            40 a single's due (<see cref="DueWord"/>)   48 since: monotonic ms when it was taken, for people
///            56 a single: one more than its place in its range; 0: nobody knows
/// </code>
/// Record 0 is made done, with start = end = where the group begins, and `next` is (0, 1). What the file holds is hostile: every
/// number that leads to a place is checked where it is used.
/// </summary>
internal static class GroupLayout
{
    /// <summary>"MFQGROUP", little-endian.</summary>
    public const ulong Magic = 0x5055_4F52_4751_464D;

    public const uint Version = 1;

    /// <summary>The only kind that this version knows; 2 is reserved for shards by key.</summary>
    public const uint KindLeases = 1;

    public const int PageLength = 4096;
    public const int HeadLength = 64;
    public const int RangeCount = 8192;
    public const int SingleCount = 8192;
    public const int RecordLength = 64;
    public const int FileLength = PageLength + ((RangeCount + SingleCount) * RecordLength);

    /// <summary>The most messages of one range.</summary>
    public const int MessagesMax = 32;

    public const int NextAt = 128;
    public const int EarliestDueAt = 256;
    public const int UsedAt = 384;
    public const int RoomSequenceAt = 512;
    public const int RoomFlagAt = 640;
    public const int GivenBackAt = 768;
    public const int DeadLetteredAt = 776;
    public const int TakenOverAt = 784;

    // Within a record.
    public const int StateIn = 0;
    public const int BitsIn = 8;
    public const int StartIn = 16;
    public const int EndIn = 24;
    public const int ContentIn = 32;
    public const int DueIn = 40;
    public const int SinceIn = 48;
    public const int PlaceIn = 56;

    /// <summary>Nothing is due: no returned message waits, as far as the hint goes.</summary>
    public const long NoneDue = long.MaxValue;

    /// <summary>Where a record begins; singles come after the ranges.</summary>
    public static int RecordAt(int record) => PageLength + (record * RecordLength);

    /// <summary>The head of the page: everything that never changes.</summary>
    public static byte[] MakeHead(Guid storeId, DateTimeOffset made)
    {
        byte[] head = new byte[HeadLength];
        BinaryPrimitives.WriteUInt64LittleEndian(head, Magic);
        BinaryPrimitives.WriteUInt32LittleEndian(head.AsSpan(8), Version);
        BinaryPrimitives.WriteUInt32LittleEndian(head.AsSpan(12), KindLeases);
        storeId.TryWriteBytes(head.AsSpan(16));
        BinaryPrimitives.WriteInt64LittleEndian(head.AsSpan(32), made.ToUnixTimeMilliseconds());
        Crc32C.Seal(head);
        return head;
    }

    /// <summary>What is wrong with a head; null when nothing is.</summary>
    public static string? FindFault(ReadOnlySpan<byte> head, Guid storeId)
    {
        if (head.Length < HeadLength || BinaryPrimitives.ReadUInt64LittleEndian(head) != Magic)
            return "it does not begin as a group's file";
        if (!Crc32C.IsSealed(head[..HeadLength]))
            return "its checksum is wrong";
        if (BinaryPrimitives.ReadUInt32LittleEndian(head[8..]) is var version && version != Version)
            return $"its version is {version}";
        if (BinaryPrimitives.ReadUInt32LittleEndian(head[12..]) is var kind && kind != KindLeases)
            return $"its kind is {kind}";
        return new Guid(head.Slice(16, 16)) == storeId ? null : "it belongs to another store";
    }

    /// <summary>Whether an offset can be that of a frame.</summary>
    public static bool IsOffset(long offset) => offset is >= 0 and <= LogLimits.OffsetMax && offset % FrameHeader.Size == 0;
}

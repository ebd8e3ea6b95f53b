using System.Buffers.Binary;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// The file `retention`:
/// <code>
///  0 8 magic "MFQRETN1"   8 8 flags   16 8 max bytes   24 8 max age, 100 ns   32 8 min free bytes   40 8 unconsumed max
/// 48 16 store id         64 60 zero  124 4 CRC-32C of all before
/// flags: 1 keep unconsumed   2 max bytes is set   4 max age is set   8 min free bytes is set   16 unconsumed max is set
///        32 recycle; others: refuse
/// </code>
/// </summary>
internal static class RetentionRecord
{
    /// <summary>Length of the file in bytes.</summary>
    public const int Length = 128;

    private const ulong Magic = 0x314E_5445_5251_464D;
    private const ulong KeepUnconsumed = 1;
    private const ulong HasMaxBytes = 2;
    private const ulong HasMaxAge = 4;
    private const ulong HasMinFree = 8;
    private const ulong HasUnconsumedMax = 16;
    private const ulong Recycle = 32;
    private const ulong KnownFlags = KeepUnconsumed | HasMaxBytes | HasMaxAge | HasMinFree | HasUnconsumedMax | Recycle;

    public static byte[] ToBytes(RetentionOptions policy, Guid storeId)
    {
        byte[] bytes = new byte[Length];
        ulong flags = (policy.KeepUnconsumed ? KeepUnconsumed : 0)
            | (policy.MaxBytes is null ? 0 : HasMaxBytes)
            | (policy.MaxAge is null ? 0 : HasMaxAge)
            | (policy.MinFreeBytes is null ? 0 : HasMinFree)
            | (policy.UnconsumedBytesMax is null ? 0 : HasUnconsumedMax)
            | (policy.Recycle ? Recycle : 0);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes, Magic);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(8), flags);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(16), policy.MaxBytes ?? 0);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(24), policy.MaxAge?.Ticks ?? 0);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(32), policy.MinFreeBytes ?? 0);
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(40), policy.UnconsumedBytesMax ?? 0);
        storeId.TryWriteBytes(bytes.AsSpan(48));
        Crc32C.Seal(bytes);
        return bytes;
    }

    /// <summary>The policy; null when the bytes are damaged, of a later version, or of another store.</summary>
    public static RetentionOptions? Parse(ReadOnlySpan<byte> bytes, Guid storeId)
    {
        if (bytes.Length != Length
            || BinaryPrimitives.ReadUInt64LittleEndian(bytes) != Magic
            || !Crc32C.IsSealed(bytes)
            || new Guid(bytes.Slice(48, 16)) != storeId)
            return null;
        ulong flags = BinaryPrimitives.ReadUInt64LittleEndian(bytes[8..]);
        long maxBytes = BinaryPrimitives.ReadInt64LittleEndian(bytes[16..]);
        long maxAge = BinaryPrimitives.ReadInt64LittleEndian(bytes[24..]);
        long minFree = BinaryPrimitives.ReadInt64LittleEndian(bytes[32..]);
        long unconsumedMax = BinaryPrimitives.ReadInt64LittleEndian(bytes[40..]);
        if ((flags & ~KnownFlags) != 0 || maxBytes < 0 || maxAge < 0 || minFree < 0 || unconsumedMax < 0)
            return null;
        return new RetentionOptions
        {
            KeepUnconsumed = (flags & KeepUnconsumed) != 0,
            MaxBytes = (flags & HasMaxBytes) != 0 ? maxBytes : null,
            MaxAge = (flags & HasMaxAge) != 0 ? TimeSpan.FromTicks(maxAge) : null,
            MinFreeBytes = (flags & HasMinFree) != 0 ? minFree : null,
            UnconsumedBytesMax = (flags & HasUnconsumedMax) != 0 ? unconsumedMax : null,
            Recycle = (flags & Recycle) != 0,
        };
    }
}

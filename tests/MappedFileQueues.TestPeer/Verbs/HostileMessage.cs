using System.Runtime.InteropServices;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>The struct of the hostile stores: a few kinds of field, 24 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct HostileStruct
{
    public long Index;
    public int Low;
    public uint High;
    public double Fraction;
}

/// <summary>A message that the store was made with.</summary>
/// <param name="Offset">Where its frame begins.</param>
/// <param name="UnitOffset">Where its batch begins; its own offset when it is in none.</param>
/// <param name="UnitEnd">Behind the last byte of its batch's payloads; of its own when it is in none.</param>
/// <param name="Payload">Its bytes.</param>
/// <param name="BlockLength">The length of its header block, which comes before them; 0 when it has none.</param>
internal sealed record HostileMessage(long Offset, long UnitOffset, long UnitEnd, byte[] Payload, int BlockLength = 0)
{
    private const int HeaderLength = 8;
    private const int KeyLength = 5;

    /// <summary>Behind the last byte that belongs to the message; what fills it up to 8 bytes belongs to none.</summary>
    public long End => Offset + HeaderLength + BlockLength + Payload.Length;

    /// <summary>What the message with this number carries: some have a key, most have nothing.</summary>
    public static MessageHeaders? Headers(int index) =>
        index % 5 == 2 ? new MessageHeaders { Key = Bytes(index, KeyLength) } : null;

    /// <summary>The bytes of the message with this number: no two are alike, and none is all zeros.</summary>
    public static byte[] Bytes(int index, int length)
    {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++)
            bytes[i] = (byte)((index * 37) + (i * 11) + 1);
        return bytes;
    }

    /// <summary>The struct with this number.</summary>
    public static HostileStruct Struct(int index) => new()
    {
        Index = index + 1,
        Low = index * 7919,
        High = uint.MaxValue - (uint)index,
        Fraction = Math.Sqrt(index + 2),
    };
}

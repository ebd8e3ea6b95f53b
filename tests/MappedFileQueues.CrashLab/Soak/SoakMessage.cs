using System.Buffers.Binary;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>
/// A message of a soak: its producer, its number, and bytes that follow from both, so that a wrong byte is seen.
/// <code>
/// 0 4 producer   4 4 length   8 8 number, from 1   16 … bytes
/// </code>
/// </summary>
internal static class SoakMessage
{
    public const int LengthMax = 1500;

    private const int HeadLength = 16;

    /// <summary>Writes a message; returns its length.</summary>
    public static int Write(Span<byte> destination, int producer, long number)
    {
        int length = LengthOf(producer, number);
        BinaryPrimitives.WriteInt32LittleEndian(destination, producer);
        BinaryPrimitives.WriteInt32LittleEndian(destination[4..], length);
        BinaryPrimitives.WriteInt64LittleEndian(destination[8..], number);
        ulong state = Seed(producer, number);
        for (int i = HeadLength; i < length; i++)
            destination[i] = (byte)(state >> (8 * (i & 7)));
        return length;
    }

    /// <summary>Whose message it is; throws when a byte is wrong.</summary>
    public static (int Producer, long Number) Read(ReadOnlySpan<byte> message, long offset)
    {
        if (message.Length < HeadLength)
            throw new LabViolation($"a message of {message.Length} bytes at {offset}");
        int producer = BinaryPrimitives.ReadInt32LittleEndian(message);
        long number = BinaryPrimitives.ReadInt64LittleEndian(message[8..]);
        if (producer is < 0 or >= SoakPlan.ProducerCount || number < 1
            || message.Length != LengthOf(producer, number)
            || message.Length != BinaryPrimitives.ReadInt32LittleEndian(message[4..]))
            throw new LabViolation(
                $"a head that nobody wrote at {offset}: producer {producer}, number {number}, {message.Length} bytes");
        ulong state = Seed(producer, number);
        for (int i = HeadLength; i < message.Length; i++)
        {
            if (message[i] != (byte)(state >> (8 * (i & 7))))
                throw new LabViolation($"byte {i} of message {number} of producer {producer} at {offset} is wrong");
        }

        return (producer, number);
    }

    private static int LengthOf(int producer, long number) =>
        HeadLength + (int)(Seed(producer, number) % (LengthMax - HeadLength));

    private static ulong Seed(int producer, long number)
    {
        ulong state = ((ulong)number * 0x9E37_79B9_7F4A_7C15) ^ ((ulong)(producer + 1) << 56);
        return state ^ (state >> 29);
    }
}

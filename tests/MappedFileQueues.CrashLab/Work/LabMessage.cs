using System.Buffers.Binary;
using System.Runtime.InteropServices;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// The bytes of a message follow from seed, producer, number and length, so each one of them can be checked. Those that are
/// long enough begin with producer and number.
/// </summary>
internal static class LabMessage
{
    public const int HeadLength = 16;

    /// <summary>State 2 (published), 8 bytes of payload: after it follows the next such header.</summary>
    private const ulong LooksLikeHeader = 0x2000_0008;

    public static byte[] Make(int seed, int producer, long number, int length)
    {
        byte[] bytes = new byte[length];
        ulong mixed = ((ulong)(uint)producer * 0x9E37_79B9_7F4A_7C15) ^ ((ulong)number * 0xBF58_476D_1CE4_E5B9);
        ulong state = ((ulong)(uint)seed << 32 ^ mixed) | 1;
        Span<ulong> words = MemoryMarshal.Cast<byte, ulong>(bytes.AsSpan());
        // A stale byte that is read as a header shall look like one, now and then.
        bool looksLikeHeaders = (state >> 33 & 3) == 0;
        for (int i = 0; i < words.Length; i++)
            words[i] = looksLikeHeaders ? LooksLikeHeader : state = Next(state);
        for (int i = words.Length * 8; i < length; i++)
            bytes[i] = (byte)(state = Next(state));
        if (length >= HeadLength)
        {
            BinaryPrimitives.WriteInt32LittleEndian(bytes, seed);
            BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(4), producer);
            BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(8), number);
        }

        return bytes;
    }

    /// <summary>Producer and number as a message of at least <see cref="HeadLength"/> bytes says.</summary>
    public static (int Producer, long Number) Head(ReadOnlySpan<byte> bytes) =>
        (BinaryPrimitives.ReadInt32LittleEndian(bytes[4..]), BinaryPrimitives.ReadInt64LittleEndian(bytes[8..]));

    public static string Describe(ReadOnlySpan<byte> bytes) => bytes.Length >= HeadLength
        ? $"{bytes.Length} bytes of producer {Head(bytes).Producer}, number {Head(bytes).Number}"
        : $"{bytes.Length} bytes";

    private static ulong Next(ulong state)
    {
        state ^= state << 13;
        state ^= state >> 7;
        return state ^ (state << 17);
    }
}

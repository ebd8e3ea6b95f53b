using System.Buffers.Binary;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Tests.Contract;

/// <summary>The struct of the struct queues: who sent it, its number, and a check that depends on both.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct Tick : IEquatable<Tick>
{
    public int Producer;
    public int Filler;
    public long Number;
    public long Check;

    public static Tick Make(int producer, long number) =>
        new() { Producer = producer, Filler = ~producer, Number = number, Check = CheckOf(producer, number) };

    /// <summary>The number, after a look at all of the rest.</summary>
    public readonly long Verify()
    {
        if (Filler != ~Producer || Check != CheckOf(Producer, Number))
            Assert.Fail($"Damaged message: producer={Producer}, number={Number}, filler={Filler}, check={Check:x}");
        return Number;
    }

    public readonly bool Equals(Tick other) => Producer == other.Producer && Number == other.Number && Check == other.Check;

    public override readonly bool Equals(object? obj) => obj is Tick other && Equals(other);

    public override readonly int GetHashCode() => HashCode.Combine(Producer, Number);

    private static long CheckOf(int producer, long number) => (number * 0x5851F42D4C957F2D) ^ ((long)producer << 56) ^ 0x14057B7E;
}

/// <summary>The messages of the message queues: producer, number, and a pattern whose length follows from the number.</summary>
internal static class Payload
{
    public const int LengthMin = 12;

    public static int LengthOf(long number) => LengthMin + (int)(number * 7 % 90);

    public static byte[] Make(int producer, long number)
    {
        byte[] bytes = new byte[LengthOf(number)];
        Fill(bytes, producer, number);
        return bytes;
    }

    public static void Fill(Span<byte> bytes, int producer, long number)
    {
        BinaryPrimitives.WriteInt32LittleEndian(bytes, producer);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[4..], number);
        for (int i = LengthMin; i < bytes.Length; i++)
            bytes[i] = Pattern(number, i);
    }

    /// <summary>Producer and number, after a look at every byte.</summary>
    public static (int Producer, long Number) Verify(ReadOnlySpan<byte> bytes)
    {
        int producer = BinaryPrimitives.ReadInt32LittleEndian(bytes);
        long number = BinaryPrimitives.ReadInt64LittleEndian(bytes[4..]);
        if (bytes.Length != LengthOf(number))
            Assert.Fail($"Wrong length: producer={producer}, number={number}, length={bytes.Length}");
        for (int i = LengthMin; i < bytes.Length; i++)
        {
            if (bytes[i] != Pattern(number, i))
                Assert.Fail($"Damaged message: producer={producer}, number={number}, at={i}, byte={bytes[i]}");
        }

        return (producer, number);
    }

    /// <summary>Bytes for a message of any length, the same for the same seed.</summary>
    public static byte[] Bytes(int length, int seed)
    {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++)
            bytes[i] = Pattern(seed, i);
        return bytes;
    }

    private static byte Pattern(long number, int index) => (byte)((number * 31) + (index * 7) + (index >> 8) + 1);
}

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Memory;

/// <summary>
/// CRC-32C (Castagnoli), the polynomial that x64 (SSE4.2) and arm64 compute in one instruction for eight bytes.
/// The steps here keep the running value without the final inversion; <see cref="Compute"/> is the usual finished checksum.
/// </summary>
internal static class Crc32C
{
    /// <summary>The usual CRC-32C of the bytes (initial value and final inversion of RFC 3720).</summary>
    public static uint Compute(ReadOnlySpan<byte> bytes)
    {
        uint crc = uint.MaxValue;
        foreach (byte value in bytes)
            crc = BitOperations.Crc32C(crc, value);
        return ~crc;
    }

    /// <summary>
    /// Goes on from <paramref name="crc"/> over the bytes in 8-byte steps, the last one filled up with zeros. Inlined, so
    /// that a length which is constant at the call costs no branches.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint Append(uint crc, ref byte source, int length)
    {
        ref byte from = ref source;
        nint whole = length & ~7;
        nint i = 0;
        for (; i + 32 <= whole; i += 32)
        {
            crc = BitOperations.Crc32C(crc, Load(ref from, i));
            crc = BitOperations.Crc32C(crc, Load(ref from, i + 8));
            crc = BitOperations.Crc32C(crc, Load(ref from, i + 16));
            crc = BitOperations.Crc32C(crc, Load(ref from, i + 24));
        }

        for (; i < whole; i += 8)
            crc = BitOperations.Crc32C(crc, Load(ref from, i));
        return (length & 7) == 0 ? crc : BitOperations.Crc32C(crc, LoadTail(ref Unsafe.Add(ref from, whole), length & 7));
    }

    /// <summary>
    /// Copies and goes on from <paramref name="crc"/> in the same pass: each byte is loaded once, so the checksum is that of
    /// what was stored even when another thread changes the source meanwhile.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint CopyAndAppend(uint crc, ref byte destination, ref byte source, int length)
    {
        nint whole = length & ~7;
        nint i = 0;
        for (; i + 32 <= whole; i += 32)
        {
            ulong a = Load(ref source, i);
            ulong b = Load(ref source, i + 8);
            ulong c = Load(ref source, i + 16);
            ulong d = Load(ref source, i + 24);
            Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, i), a);
            Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, i + 8), b);
            Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, i + 16), c);
            Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, i + 24), d);
            crc = BitOperations.Crc32C(crc, a);
            crc = BitOperations.Crc32C(crc, b);
            crc = BitOperations.Crc32C(crc, c);
            crc = BitOperations.Crc32C(crc, d);
        }

        for (; i < whole; i += 8)
        {
            ulong a = Load(ref source, i);
            Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, i), a);
            crc = BitOperations.Crc32C(crc, a);
        }

        if ((length & 7) == 0)
            return crc;
        ulong tail = LoadTail(ref Unsafe.Add(ref source, whole), length & 7);
        StoreTail(ref Unsafe.Add(ref destination, whole), tail, length & 7);
        return BitOperations.Crc32C(crc, tail);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Load(ref byte source, nint index) =>
        Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref source, index));

    /// <summary>Loads 1 to 7 bytes without reading past them; the rest of the word is zero.</summary>
    private static ulong LoadTail(ref byte source, int count)
    {
        ulong value = 0;
        MemoryMarshal.CreateReadOnlySpan(ref source, count)
            .CopyTo(MemoryMarshal.AsBytes(MemoryMarshal.CreateSpan(ref value, 1)));
        return value;
    }

    private static void StoreTail(ref byte destination, ulong value, int count) =>
        MemoryMarshal.AsBytes(MemoryMarshal.CreateReadOnlySpan(ref value, 1))[..count]
            .CopyTo(MemoryMarshal.CreateSpan(ref destination, count));
}

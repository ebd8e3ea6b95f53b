using System.Buffers.Binary;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics.X86;

namespace MappedFileQueues.Memory;

/// <summary>
/// CRC-32C (Castagnoli), the polynomial that x64 (SSE4.2) and arm64 compute in one instruction for eight bytes.
/// The steps here keep the running value without the final inversion; <see cref="Compute"/> is the usual finished checksum.
/// </summary>
internal static class Crc32C
{
    /// <summary>Up to this length the steps over a known length are written out.</summary>
    private const int KnownMax = 64;

    /// <summary>Beyond it <see cref="Crc32CBlocks"/> is faster, with the calls to it; a constant for the compiler.</summary>
    public static int ShortMax
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Crc32CBlocks.IsSupported ? (2 * Crc32CBlocks.Length) - 1 : int.MaxValue;
    }

    /// <summary>Writes the CRC-32C of a record into its last four bytes.</summary>
    public static void Seal(Span<byte> record) =>
        BinaryPrimitives.WriteUInt32LittleEndian(record[^4..], Compute(record[..^4]));

    /// <summary>Whether the last four bytes of a record are the CRC-32C of the others.</summary>
    public static bool IsSealed(ReadOnlySpan<byte> record) =>
        BinaryPrimitives.ReadUInt32LittleEndian(record[^4..]) == Compute(record[..^4]);

    /// <summary>The usual CRC-32C of the bytes (initial value and final inversion of RFC 3720).</summary>
    public static uint Compute(ReadOnlySpan<byte> bytes)
    {
        uint crc = uint.MaxValue;
        foreach (byte value in bytes)
            crc = BitOperations.Crc32C(crc, value);
        return ~crc;
    }

    /// <summary>
    /// Continues over eight bytes. The running value is a 64-bit word whose upper half is zero, as the x64 instruction leaves
    /// it: with a 32-bit value the compiler would clear the upper half before each step, a fourth cycle in a chain of three.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong Step(ulong crc, ulong data) =>
        Sse42.X64.IsSupported ? Sse42.X64.Crc32(crc, data) : BitOperations.Crc32C((uint)crc, data);

    /// <summary>
    /// Continues from <paramref name="crc"/> over the bytes in 8-byte steps; zeros fill up the last one. Inlined, so that a
    /// length that is constant at the call site costs no branches.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint Append(uint crc, ref byte source, int length) =>
        length > ShortMax ? AppendLong(crc, ref source, length) : AppendShort(crc, ref source, length);

    /// <summary>As <see cref="Append"/>, for a length up to <see cref="ShortMax"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint AppendShort(uint crc, ref byte source, int length)
    {
        nint whole = (nint)((uint)length & ~7u);
        nint i = 0;
        ulong running = crc;
        for (; i + 32 <= whole; i += 32)
        {
            running = Step(running, Load(ref source, i));
            running = Step(running, Load(ref source, i + 8));
            running = Step(running, Load(ref source, i + 16));
            running = Step(running, Load(ref source, i + 24));
        }

        for (; i < whole; i += 8)
            running = Step(running, Load(ref source, i));
        return (uint)((length & 7) == 0 ? running : Step(running, LoadTail(ref source, length)));
    }

    /// <summary>
    /// As <see cref="Append"/>, for a length that is constant at the call site: then nothing is left of the comparisons.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint AppendKnown(uint crc, ref byte source, int length)
    {
        if (length > KnownMax)
            return Append(crc, ref source, length);
        ulong running = crc;
        if (length >= 8)
            running = Step(running, Load(ref source, 0));
        if (length >= 16)
            running = Step(running, Load(ref source, 8));
        if (length >= 24)
            running = Step(running, Load(ref source, 16));
        if (length >= 32)
            running = Step(running, Load(ref source, 24));
        if (length >= 40)
            running = Step(running, Load(ref source, 32));
        if (length >= 48)
            running = Step(running, Load(ref source, 40));
        if (length >= 56)
            running = Step(running, Load(ref source, 48));
        if (length >= 64)
            running = Step(running, Load(ref source, 56));
        return (uint)((length & 7) == 0 ? running : Step(running, LoadTail(ref source, length)));
    }

    /// <summary>As <see cref="CopyAndAppend"/>, for a length that is constant at the call site.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint CopyAndAppendKnown(uint crc, ref byte destination, ref byte source, int length)
    {
        if (length > KnownMax || (length & 7) != 0)
            return CopyAndAppend(crc, ref destination, ref source, length);
        ulong running = crc;
        if (length >= 8)
            running = CopyWord(running, ref destination, ref source, 0);
        if (length >= 16)
            running = CopyWord(running, ref destination, ref source, 8);
        if (length >= 24)
            running = CopyWord(running, ref destination, ref source, 16);
        if (length >= 32)
            running = CopyWord(running, ref destination, ref source, 24);
        if (length >= 40)
            running = CopyWord(running, ref destination, ref source, 32);
        if (length >= 48)
            running = CopyWord(running, ref destination, ref source, 40);
        if (length >= 56)
            running = CopyWord(running, ref destination, ref source, 48);
        if (length >= 64)
            running = CopyWord(running, ref destination, ref source, 56);
        return (uint)running;
    }

    /// <summary>
    /// Copies and continues from <paramref name="crc"/> in the same pass. What is stored is what was loaded for the checksum, so
    /// they match even when another thread changes the source meanwhile. The last word is stored whole: the destination ends
    /// at a multiple of 8.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint CopyAndAppend(uint crc, ref byte destination, ref byte source, int length) => length > ShortMax
        ? CopyAndAppendLong(crc, ref destination, ref source, length)
        : CopyAndAppendShort(crc, ref destination, ref source, length);

    /// <summary>As <see cref="CopyAndAppend"/>, for a length up to <see cref="ShortMax"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint CopyAndAppendShort(uint crc, ref byte destination, ref byte source, int length)
    {
        nint whole = (nint)((uint)length & ~7u);
        nint i = 0;
        ulong running = crc;
        for (; i + 32 <= whole; i += 32)
        {
            running = CopyWord(running, ref destination, ref source, i);
            running = CopyWord(running, ref destination, ref source, i + 8);
            running = CopyWord(running, ref destination, ref source, i + 16);
            running = CopyWord(running, ref destination, ref source, i + 24);
        }

        for (; i < whole; i += 8)
            running = CopyWord(running, ref destination, ref source, i);
        if ((length & 7) == 0)
            return (uint)running;
        ulong tail = LoadTail(ref source, length);
        Store(ref destination, whole, tail);
        return (uint)Step(running, tail);
    }

    /// <summary>As <see cref="CopyAndAppend"/>, for a short length that is a multiple of 8 and more than 0.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint CopyAndAppendWords(uint crc, ref byte destination, ref byte source, int length)
    {
        ulong running = crc;
        nint i = 0;
        do
        {
            running = CopyWord(running, ref destination, ref source, i);
            i += sizeof(ulong);
        }
        while (i < length);
        return (uint)running;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static uint AppendLong(uint crc, ref byte source, int length)
    {
        int blocks = length - (length % Crc32CBlocks.Length);
        crc = Crc32CBlocks.Append(crc, ref source, blocks);
        return AppendShort(crc, ref Unsafe.Add(ref source, blocks), length - blocks);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static uint CopyAndAppendLong(uint crc, ref byte destination, ref byte source, int length)
    {
        int blocks = length - (length % Crc32CBlocks.Length);
        crc = Crc32CBlocks.CopyAndAppend(crc, ref destination, ref source, blocks);
        return CopyAndAppendShort(
            crc, ref Unsafe.Add(ref destination, blocks), ref Unsafe.Add(ref source, blocks), length - blocks);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong CopyWord(ulong crc, ref byte destination, ref byte source, nint index)
    {
        ulong word = Load(ref source, index);
        Store(ref destination, index, word);
        return Step(crc, word);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Load(ref byte source, nint index) =>
        Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref source, index));

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static void Store(ref byte destination, nint index, ulong value) =>
        Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, index), value);

    /// <summary>
    /// The bytes after the last whole word of a source, 1 to 7, with zeros above them; nothing outside the source is read. It is
    /// inlined: the compiler keeps in memory whatever has to survive a call, the running value too.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong LoadTail(ref byte source, int length)
    {
        int count = length & 7;
        // The word that ends where the source ends.
        if (length > 8)
            return Load(ref source, length - 8) >> (64 - (count * 8));
        // Two halves that may overlap.
        if (count >= 4)
        {
            return Unsafe.ReadUnaligned<uint>(ref source)
                | ((ulong)Unsafe.ReadUnaligned<uint>(ref Unsafe.Add(ref source, count - 4)) << ((count - 4) * 8));
        }

        // The first, the middle and the last byte, which may be the same.
        return source
            | ((ulong)Unsafe.Add(ref source, count >> 1) << ((count >> 1) * 8))
            | ((ulong)Unsafe.Add(ref source, count - 1) << ((count - 1) * 8));
    }
}

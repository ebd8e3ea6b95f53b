using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics;
using System.Runtime.Intrinsics.X86;
using ArmAes = System.Runtime.Intrinsics.Arm.Aes;
using ArmCrc32 = System.Runtime.Intrinsics.Arm.Crc32;

namespace MappedFileQueues.Memory;

/// <summary>
/// CRC-32C over whole blocks, each as three runs side by side. The instruction takes three cycles and may begin in each one: a
/// chain over one run leaves two thirds of it idle. The values of the runs are brought together by carry-less multiplication
/// (V. Gopal and others, "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011). Measured on an AMD
/// EPYC of 2022 with 1 KiB in the cache: 41 ns and not 105; with a copy, 48 and not 105.
/// </summary>
internal static class Crc32CBlocks
{
    /// <summary>The bytes of a block.</summary>
    public const int Length = 3 * Run;

    private const int Run = 64;

    // The factor that carries a value over n words of zeros is x^(64 n - 33) modulo the polynomial, its bits reflected: a step
    // over the product, which has 63 bits, reduces it.
    private const ulong OverOneRun = 0x9E4A_DDF8;
    private const ulong OverTwoRuns = 0x0D3B_6092;
    private const ulong OverThreeRuns = 0xAB7A_FF2A;

    /// <summary>Whether the processor has both instructions; a constant for the compiler.</summary>
    public static bool IsSupported
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => (Sse42.X64.IsSupported && Pclmulqdq.IsSupported) || (ArmCrc32.Arm64.IsSupported && ArmAes.IsSupported);
    }

    /// <summary>Continues from <paramref name="crc"/> over <paramref name="length"/> bytes, a multiple of the block's.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static uint Append(uint crc, ref byte source, int length) =>
        Append(crc, ref Unsafe.NullRef<byte>(), ref source, length, copies: false);

    /// <summary>As <see cref="Append(uint, ref byte, int)"/>; what is stored is what was loaded for the checksum.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static uint CopyAndAppend(uint crc, ref byte destination, ref byte source, int length) =>
        Append(crc, ref destination, ref source, length, copies: true);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static uint Append(uint crc, ref byte destination, ref byte source, int length, bool copies)
    {
        ulong running = crc;
        for (nint block = 0; block < length; block += Length)
        {
            // From zero, and not the first from the value until here: so the steps of the next block need not wait for it.
            ulong first = 0;
            ulong second = 0;
            ulong third = 0;
            for (nint at = block; at < block + Run; at += sizeof(ulong))
            {
                first = Step(first, ref destination, ref source, at, copies);
                second = Step(second, ref destination, ref source, at + Run, copies);
                third = Step(third, ref destination, ref source, at + (2 * Run), copies);
            }

            ulong carried = Multiply(running, OverThreeRuns) ^ Multiply(first, OverTwoRuns) ^ Multiply(second, OverOneRun);
            running = third ^ Crc32C.Step(0, carried);
        }

        return (uint)running;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Step(ulong crc, ref byte destination, ref byte source, nint at, bool copies)
    {
        ulong word = Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref source, at));
        if (copies)
            Unsafe.WriteUnaligned(ref Unsafe.Add(ref destination, at), word);
        return Crc32C.Step(crc, word);
    }

    /// <summary>The carry-less product of two numbers of 32 bits.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Multiply(ulong left, ulong right) => Pclmulqdq.IsSupported
        ? Pclmulqdq.CarrylessMultiply(Vector128.CreateScalar(left), Vector128.CreateScalar(right), 0).ToScalar()
        : ArmAes.PolynomialMultiplyWideningLower(Vector64.Create(left), Vector64.Create(right)).ToScalar();
}

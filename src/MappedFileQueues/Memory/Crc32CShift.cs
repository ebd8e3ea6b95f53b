using System.Numerics;

namespace MappedFileQueues.Memory;

/// <summary>
/// Continues a CRC over words of zeros in logarithmic time. A step over a word is linear over GF(2): step(a ^ b, x ^ y) =
/// step(a, x) ^ step(b, y). So the value of a run follows from the values at its two ends, whatever is before it, once the
/// first value is carried over as many words of zeros as the run has words.
/// </summary>
internal static class Crc32CShift
{
    /// <summary>One for each bit of a count of words; a count is below 2^28 / 8.</summary>
    private const int PowerCount = 26;

    /// <summary>Table n holds the result of a step over 2^n zero words for each single bit.</summary>
    private static readonly uint[][] s_powers = MakePowers();

    /// <summary>The running value after this many words of zeros.</summary>
    public static uint OverZeros(uint crc, long wordCount)
    {
        for (int power = 0; wordCount != 0; power++, wordCount >>= 1)
        {
            if ((wordCount & 1) != 0)
                crc = Apply(s_powers[power], crc);
        }

        return crc;
    }

    private static uint[][] MakePowers()
    {
        uint[][] powers = new uint[PowerCount][];
        powers[0] = [.. Enumerable.Range(0, 32).Select(bit => (uint)Crc32C.Step(1u << bit, 0))];
        for (int power = 1; power < PowerCount; power++)
        {
            uint[] half = powers[power - 1];
            powers[power] = [.. half.Select(value => Apply(half, value))];
        }

        return powers;
    }

    private static uint Apply(uint[] table, uint value)
    {
        uint result = 0;
        for (; value != 0; value &= value - 1)
            result ^= table[BitOperations.TrailingZeroCount(value)];
        return result;
    }
}

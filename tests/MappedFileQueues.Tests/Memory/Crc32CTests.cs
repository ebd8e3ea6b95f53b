using System.Text;
using MappedFileQueues.Memory;
using MappedFileQueues.Tests.Format;

namespace MappedFileQueues.Tests.Memory;

public sealed class Crc32CTests
{
    private const byte Guard = 0xEE;

    /// <summary>No block of three runs, two, three, and what is left of a fourth.</summary>
    private const int LengthMax = (3 * Crc32CBlocks.Length) + 100;

    private const int GuardedLength = LengthMax + 24;

    /// <summary>RFC 3720, appendix B.4; there the bytes of the checksum are listed lowest first.</summary>
    [Fact]
    public void Compute_VectorsOfRfc3720_Agree()
    {
        Assert.Equal(0x8A91_36AAu, Crc32C.Compute(new byte[32]));
        Assert.Equal(0x62A8_AB43u, Crc32C.Compute([.. Enumerable.Repeat((byte)0xFF, 32)]));
        Assert.Equal(0x46DD_794Eu, Crc32C.Compute([.. Enumerable.Range(0, 32).Select(i => (byte)i)]));
        Assert.Equal(0x113F_DB5Cu, Crc32C.Compute([.. Enumerable.Range(0, 32).Select(i => (byte)(31 - i))]));
        byte[] readCommand = Convert.FromHexString(
            "01c0000000000000000000000000000014000000000004000000001400000018280000000000000002000000" + "00000000");
        Assert.Equal(0xD996_3A56u, Crc32C.Compute(readCommand));
    }

    [Theory]
    [InlineData("", 0x0000_0000u)]
    [InlineData("a", 0xC1D0_4330u)]
    [InlineData("123456789", 0xE306_9283u)]
    public void Compute_KnownText_Agrees(string text, uint expected) =>
        Assert.Equal(expected, Crc32C.Compute(Encoding.ASCII.GetBytes(text)));

    [Fact]
    public void Append_EveryLengthAndAlignment_EqualsBitByBitOverTheFilledUpBytes()
    {
        byte[] bytes = new byte[GuardedLength];
        new Random(3).NextBytes(bytes);
        for (int start = 0; start < 9; start++)
        {
            for (int length = 0; length <= LengthMax; length++)
            {
                byte[] filled = new byte[(length + 7) / 8 * 8];
                bytes.AsSpan(start, length).CopyTo(filled);
                Assert.Equal(FormatTwo.Crc(0x1234_5678, filled), Crc32C.Append(0x1234_5678, ref bytes[start], length));
            }
        }
    }

    [Fact]
    public void CopyAndAppend_EveryLengthAndAlignment_CopiesWholeWordsAndAgreesWithAppendAndTouchesNothingElse()
    {
        byte[] source = new byte[GuardedLength];
        new Random(4).NextBytes(source);
        for (int start = 0; start < 9; start++)
        {
            for (int length = 0; length <= LengthMax; length++)
            {
                byte[] destination = Guarded();
                uint crc = Crc32C.CopyAndAppend(9, ref destination[start], ref source[8 - start], length);
                Assert.Equal(Crc32C.Append(9, ref source[8 - start], length), crc);
                byte[] filled = new byte[(length + 7) / 8 * 8];
                source.AsSpan(8 - start, length).CopyTo(filled);
                ExpectCopied(filled, destination, start);
            }
        }
    }

    [Fact]
    public void Step_EightBytes_EqualsBitByBit()
    {
        ulong data = 0x0123_4567_89AB_CDEF;
        Assert.Equal(FormatTwo.Crc(0xFFFF_FFFF, BitConverter.GetBytes(data)), (uint)Crc32C.Step(0xFFFF_FFFF, data));
        Assert.Equal(0u, (uint)(Crc32C.Step(0xFFFF_FFFF, data) >> 32));
    }

    private static byte[] Guarded() => [.. Enumerable.Repeat(Guard, GuardedLength)];

    private static void ExpectCopied(ReadOnlySpan<byte> expected, ReadOnlySpan<byte> destination, int start)
    {
        Assert.Equal(expected, destination.Slice(start, expected.Length));
        Assert.False(destination[..start].ContainsAnyExcept(Guard));
        Assert.False(destination[(start + expected.Length)..].ContainsAnyExcept(Guard));
    }
}

using System.Runtime.CompilerServices;

namespace MappedFileQueues.Format;

/// <summary>
/// The one word of a cursor file (4 KiB, the rest is zero): the consumer's offset, a multiple of 8 below 2^57, with the lowest
/// bit set and seven check bits in bits 57 to 63. The check bits are those of the word without them times an odd number, which
/// was chosen so that one flipped bit is always noticed; other damage passes once in 1,024 times. The check costs a commit one
/// multiplication, and a commit stays one store. Only the one consumer that holds the cursor's name writes the word.
/// </summary>
internal static class CursorWord
{
    /// <summary>Length of a cursor file in bytes.</summary>
    public const int FileLength = 4096;

    /// <summary>No offset yet: what a cursor is made with ("MFQ-NONE"). So zeros are damage, and no new consumer.</summary>
    public const ulong New = 0x454E_4F4E_2D51_464D;

    /// <summary>No cursor holds this or more.</summary>
    public const long OffsetEnd = 1L << 57;

    private const ulong Mark = 1;
    private const ulong CheckBits = ~((ulong)OffsetEnd - 1);
    private const ulong Factor = 0xD502_9C1D_890D_25FB;

    /// <summary>On the path of every commit: without the attribute the runtime makes it a call.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong From(long offset)
    {
        ulong word = (ulong)offset | Mark;
        return word | ((word * Factor) & CheckBits);
    }

    /// <summary>False when the word is damaged, or <see cref="New"/>.</summary>
    public static bool TryRead(ulong word, out long offset)
    {
        offset = (long)(word & ~(CheckBits | Mark));
        return offset % FrameHeader.Size == 0 && word == From(offset);
    }
}

namespace MappedFileQueues.Files;

/// <summary>
/// A buffer of the pump. The array is pinned, so that the system can read into it, and managed, so that a span of it that is
/// still out after Dispose points to memory that is still there.
/// </summary>
internal sealed class ReadBlock
{
    private const int Alignment = 4096;

    /// <param name="headroom">Bytes kept free before the data.</param>
    /// <param name="length">The most bytes that it takes.</param>
    public ReadBlock(int headroom, int length)
    {
        Length = length;
        Array = GC.AllocateUninitializedArray<byte>(headroom + length + Alignment, pinned: true);
        Start = headroom + AlignmentGap(headroom);
    }

    /// <summary>The memory that the block lies in.</summary>
    public byte[] Array { get; }

    /// <summary>The most bytes that it takes.</summary>
    public int Length { get; }

    /// <summary>Where the data begins: at a whole page, with at least the headroom before it.</summary>
    public int Start { get; }

    /// <summary>How many bytes it holds.</summary>
    public int Count { get; set; }

    /// <summary>The position in the file of its first byte.</summary>
    public long Position { get; set; }

    /// <summary>The position behind its last byte.</summary>
    public long End => Position + Count;

    private unsafe int AlignmentGap(int headroom)
    {
        fixed (byte* first = Array)
            return (int)(-((nint)first + headroom) & (Alignment - 1));
    }
}

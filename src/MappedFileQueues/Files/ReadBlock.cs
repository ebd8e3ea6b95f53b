using System.Diagnostics.CodeAnalysis;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files;

/// <summary>
/// A piece of a file: read into memory of its own, or where it lies in a mapping. Memory of its own is a pinned array, so that
/// the system can read into it, and managed, so that a span of it that is still out after Dispose points to memory that is
/// still there.
/// </summary>
/// <param name="headroom">Bytes kept free before the data in an array.</param>
internal sealed class ReadBlock(int headroom)
{
    private const int Alignment = 4096;

    private MappedMemory? _mapped;

    /// <summary>The memory of its own; empty until the first <see cref="Reserve"/>.</summary>
    public byte[] Array { get; private set; } = [];

    /// <summary>Where the data begins in the array: at a whole page, with at least the headroom before it.</summary>
    public int Start { get; private set; }

    /// <summary>How many bytes it holds.</summary>
    public int Count { get; set; }

    /// <summary>The position in the file of its first byte.</summary>
    public long Position { get; set; }

    /// <summary>The position behind its last byte.</summary>
    public long End => Position + Count;

    /// <summary>Whether it lies in a mapping.</summary>
    [MemberNotNullWhen(true, nameof(_mapped))]
    public bool IsMapped => _mapped is { Length: > 0 };

    /// <summary>What it holds.</summary>
    public ReadOnlySpan<byte> Span => IsMapped ? _mapped.GetSpan() : Array.AsSpan(Start, Count);

    /// <summary>The same, to be kept across an await.</summary>
    public ReadOnlyMemory<byte> Memory => IsMapped ? _mapped.Memory : Array.AsMemory(Start, Count);

    /// <summary>The array is at least so long; what it held is gone.</summary>
    /// <returns>Where to read to.</returns>
    /// <exception cref="OutOfMemoryException">There is not so much.</exception>
    public Span<byte> Reserve(int length)
    {
        int needed = headroom + length + Alignment;
        if (Array.Length < needed)
        {
            Array = GC.AllocateUninitializedArray<byte>(needed, pinned: true);
            Start = headroom + AlignmentGap();
        }

        return Array.AsSpan(Start, length);
    }

    /// <summary>Takes what stands at a position: from the mapping if there is one and it can, else by reading it.</summary>
    /// <returns>How many bytes; fewer where the file ends at that moment, or a piece of the mapping.</returns>
    /// <exception cref="QueueDiskException">The system refused.</exception>
    /// <exception cref="OutOfMemoryException">There is not so much memory.</exception>
    public int Fill(ReadableFile file, FileMapping? mapping, long position, int length)
    {
        Position = position;
        Count = 0;
        if (mapping is not null)
            Count = mapping.Take(_mapped ??= new MappedMemory(), position, length);
        if (Count == 0)
            Count = file.ReadAt(Reserve(length), position);
        return Count;
    }

    private unsafe int AlignmentGap()
    {
        fixed (byte* first = Array)
            return (int)(-((nint)first + headroom) & (Alignment - 1));
    }
}

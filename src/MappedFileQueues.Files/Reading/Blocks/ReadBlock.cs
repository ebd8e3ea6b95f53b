using System.Diagnostics.CodeAnalysis;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// A piece of a file: read into memory of its own, or placed in a mapping. Memory of its own is a pinned array, so that the
/// system can read into it. It is managed, so that a span that is used after Dispose points to memory that is still there.
/// </summary>
/// <param name="headroom">Bytes kept free before the data in an array.</param>
internal sealed class ReadBlock(int headroom)
{
    /// <summary>Data begins at a multiple of this.</summary>
    public const int PageLength = 4096;

    /// <summary>No bytes: the next blocks are of another file, or of the same one from its beginning.</summary>
    public static readonly ReadBlock NextFile = new(0) { BeginsFile = true };

    /// <summary>The same, and a line that the last block began has no end.</summary>
    public static readonly ReadBlock NextFileAfterLoss = new(0) { BeginsFile = true, IsAfterLoss = true };

    private MappedMemory? _mapped;

    /// <summary>The memory of its own; empty until the first <see cref="Reserve"/>.</summary>
    public byte[] Array { get; private set; } = [];

    /// <summary>Whether this is <see cref="NextFile"/> or <see cref="NextFileAfterLoss"/>.</summary>
    public bool BeginsFile { get; private init; }

    /// <summary>Whether this is <see cref="NextFileAfterLoss"/>.</summary>
    public bool IsAfterLoss { get; private init; }

    /// <summary>Where the data begins in the array: at a whole page, with at least the headroom before it.</summary>
    public int Start { get; private set; }

    /// <summary>How many bytes it holds.</summary>
    public int Count { get; set; }

    /// <summary>The position in the file of its first byte.</summary>
    public long Position { get; set; }

    /// <summary>The position after its last byte.</summary>
    public long End => Position + Count;

    /// <summary>Whether it is in a mapping.</summary>
    [MemberNotNullWhen(true, nameof(_mapped))]
    public bool IsMapped => _mapped is { Length: > 0 };

    /// <summary>What it holds.</summary>
    public ReadOnlySpan<byte> Span => IsMapped ? _mapped.GetSpan() : Array.AsSpan(Start, Count);

    /// <summary>The same, to be kept across an await.</summary>
    public ReadOnlyMemory<byte> Memory => IsMapped ? _mapped.Memory : Array.AsMemory(Start, Count);

    /// <summary>Makes the array at least this long; what it held is gone.</summary>
    /// <returns>Where to read to.</returns>
    /// <exception cref="OutOfMemoryException">There is not enough memory.</exception>
    public unsafe Span<byte> Reserve(int length)
    {
        if (Array.Length < Start + length)
        {
            Array = GC.AllocateUninitializedArray<byte>(headroom + length + PageLength, pinned: true);
            fixed (byte* first = Array)
                Start = headroom + (int)(-((nint)first + headroom) & (PageLength - 1));
        }

        return Array.AsSpan(Start, length);
    }

    /// <summary>Takes what is at a position: from the mapping where that is possible, else by reading.</summary>
    /// <returns>How many bytes; fewer where the file ends at that moment, or a piece of the mapping.</returns>
    /// <exception cref="QueueDiskException">The system refused.</exception>
    /// <exception cref="OutOfMemoryException">There is not enough memory.</exception>
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
}

using System.Buffers;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>A block's place in a mapping, also as <see cref="Memory{T}"/>, which throws after Dispose.</summary>
internal sealed unsafe class MappedMemory : MemoryManager<byte>
{
    private FileWindow? _window;
    private long _position;

    /// <summary>Bytes; 0 while the block is in no mapping.</summary>
    public int Length { get; private set; }

    /// <inheritdoc/>
    public override Memory<byte> Memory => CreateMemory(Length);

    /// <summary>Takes a place in a window.</summary>
    public void Take(FileWindow window, long position, int count)
    {
        window.Users++;
        (_window, _position, Length) = (window, position, count);
    }

    /// <summary>Gives the place back.</summary>
    public void LetGo()
    {
        if (_window is not null)
            _window.Users--;
        (_window, Length) = (null, 0);
    }

    /// <inheritdoc/>
    public override Span<byte> GetSpan() => new(_window is null ? null : _window.At(_position), Length);

    /// <inheritdoc/>
    public override MemoryHandle Pin(int elementIndex = 0)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan((uint)elementIndex, (uint)Length);
        return new MemoryHandle(_window is null ? null : _window.At(_position) + elementIndex);
    }

    /// <inheritdoc/>
    public override void Unpin()
    {
        // A mapping does not move.
    }

    /// <inheritdoc/>
    protected override void Dispose(bool disposing)
    {
        // The window belongs to the mapping.
    }
}

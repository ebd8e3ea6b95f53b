using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Packs;

/// <summary>A file of bytes in memory, whose length and reads a test can change.</summary>
internal sealed class MemoryFile(string name) : PlatformFile
{
    private byte[] _bytes = [];

    /// <summary>What the length is said to be, one answer after the other; then what it is.</summary>
    public Queue<long> Lengths { get; } = [];

    /// <summary>Called before each read.</summary>
    public Action? BeforeRead { get; set; }

    /// <summary>What was asked for ahead.</summary>
    public List<(long Position, long Length)> Advised { get; } = [];

    public override string Path => name;

    public override long Length => Lengths.TryDequeue(out long length) ? length : _bytes.Length;

    public override long AllocatedLength => Length;

    public override FileIdentity Identity => default;

    public override DateTimeOffset LastWritten => default;

    public override void SetLength(long length) => Array.Resize(ref _bytes, (int)length);

    public override bool TryAllocate(long offset, long length) => false;

    public override void Allocate(long offset, long length) => throw new NotSupportedException();

    public override int ReadAt(Span<byte> destination, long position)
    {
        BeforeRead?.Invoke();
        int count = (int)Math.Clamp(_bytes.Length - position, 0, destination.Length);
        _bytes.AsSpan((int)position, count).CopyTo(destination);
        return count;
    }

    /// <summary>Zeros are holes.</summary>
    public override long FindData(long offset)
    {
        int found = _bytes.AsSpan((int)Math.Min(offset, _bytes.Length)).IndexOfAnyExcept((byte)0);
        return found < 0 ? long.MaxValue : offset + found;
    }

    public override void WriteAt(ReadOnlySpan<byte> source, long position)
    {
        if (_bytes.Length < position + source.Length)
            SetLength(position + source.Length);
        source.CopyTo(_bytes.AsSpan((int)position));
    }

    public override void FlushData()
    {
    }

    public override void AdviseWillNeed(long offset, long length) => Advised.Add((offset, length));

    public override MappedView Map(long length, bool writable) => throw new NotSupportedException();

    public override void Dispose()
    {
    }
}

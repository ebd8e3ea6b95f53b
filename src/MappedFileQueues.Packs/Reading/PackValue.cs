using System.Buffers;

namespace MappedFileQueues.Packs.Reading;

/// <summary>The data of one object in a pooled array, which is returned to the pool on dispose.</summary>
internal sealed class PackValue(byte[] rented, int start, int length) : IMemoryOwner<byte>
{
    private byte[]? _rented = rented;

    public Memory<byte> Memory
    {
        get
        {
            ObjectDisposedException.ThrowIf(_rented is null, typeof(IMemoryOwner<byte>));
            return _rented.AsMemory(start, length);
        }
    }

    public void Dispose()
    {
        if (Interlocked.Exchange(ref _rented, null) is { } array)
            ArrayPool<byte>.Shared.Return(array);
    }
}

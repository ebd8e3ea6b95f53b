using System.Buffers;

namespace MappedFileQueues.Packs.Reading;

/// <summary>The data of one object in an array of the pool, to which it goes back once it is disposed.</summary>
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

using System.Buffers;
using System.Buffers.Binary;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// Reads or writes words of 8 bytes in sequence, through a buffer, and computes the CRC of all of them. So a checkpoint of
/// millions of entries is written and read without a second copy in memory.
/// </summary>
internal sealed class CheckpointStream(PlatformFile file, long start) : IDisposable
{
    private const int BufferLength = 1024 * 1024;

    private readonly byte[] _buffer = ArrayPool<byte>.Shared.Rent(BufferLength);
    private long _position = start;
    private int _at;
    private int _count;

    /// <summary>The CRC of all words so far.</summary>
    public uint Crc { get; private set; } = uint.MaxValue;

    public void Write(ulong word) => Write(MemoryMarshal.CreateReadOnlySpan(ref word, 1));

    /// <summary>Writes words. They reach the file when the buffer is full, and at <see cref="Flush"/>.</summary>
    public void Write(ReadOnlySpan<ulong> words)
    {
        ReadOnlySpan<byte> bytes = MemoryMarshal.AsBytes(words);
        Crc = Crc32C.Append(Crc, ref MemoryMarshal.GetReference(bytes), bytes.Length);
        while (bytes.Length > 0)
        {
            int length = Math.Min(bytes.Length, BufferLength - _at);
            bytes[..length].CopyTo(_buffer.AsSpan(_at));
            _at += length;
            bytes = bytes[length..];
            if (_at == BufferLength)
                Flush();
        }
    }

    public void Flush()
    {
        file.WriteAt(_buffer.AsSpan(0, _at), _position);
        _position += _at;
        _at = 0;
    }

    /// <summary>Reads words; false if the file ends first.</summary>
    public bool TryRead(Span<ulong> words)
    {
        Span<byte> bytes = MemoryMarshal.AsBytes(words);
        for (Span<byte> left = bytes; left.Length > 0;)
        {
            if (_at == _count)
            {
                _count = file.ReadAt(_buffer.AsSpan(0, BufferLength), _position);
                _position += _count;
                _at = 0;
                if (_count == 0)
                    return false;
            }

            int length = Math.Min(left.Length, _count - _at);
            _buffer.AsSpan(_at, length).CopyTo(left);
            _at += length;
            left = left[length..];
        }

        Crc = Crc32C.Append(Crc, ref MemoryMarshal.GetReference(bytes), bytes.Length);
        return true;
    }

    public bool TryRead(out ulong word)
    {
        word = 0;
        return TryRead(MemoryMarshal.CreateSpan(ref word, 1));
    }

    public void Dispose() => ArrayPool<byte>.Shared.Return(_buffer);
}

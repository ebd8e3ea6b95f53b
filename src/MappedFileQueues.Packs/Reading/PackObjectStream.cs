using System.Buffers;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Reading;

/// <summary>
/// The data of one object as a stream. It holds a reference on the volume, so it reads the same bytes until it is disposed,
/// whatever is put, deleted, evicted or compacted meanwhile.
/// </summary>
internal sealed class PackObjectStream : Stream
{
    /// <summary>A multiple of 8, so that a CRC can continue from chunk to chunk.</summary>
    private const int ChunkLength = 256 * 1024;

    private readonly Lock _gate = new();
    private readonly long _needleAt;
    private readonly long _dataAt;
    private readonly int _length;
    private Volume? _volume;
    private long _position;

    /// <summary>Takes over the caller's reference on the volume.</summary>
    private PackObjectStream(Volume acquired, long needleAt, NeedleLayout needle)
    {
        (_volume, _needleAt, _dataAt, _length) = (acquired, needleAt, needleAt + needle.DataAt, needle.DataLength);
    }

    public override bool CanRead => Volatile.Read(ref _volume) is not null;

    public override bool CanSeek => CanRead;

    public override bool CanWrite => false;

    public override long Length => _length;

    public override long Position
    {
        get => _position;
        set
        {
            ArgumentOutOfRangeException.ThrowIfNegative(value);
            _position = value;
        }
    }

    /// <summary>
    /// Opens the object that was found. Reads all of it once to verify its checksum: a stream that finds out at its end has
    /// handed out wrong bytes before.
    /// </summary>
    /// <exception cref="PackCorruptException">The data is damaged.</exception>
    public static PackObjectStream Open(ref NeedleRead found)
    {
        Volume volume = found.Volume;
        volume.Share();
        var stream = new PackObjectStream(volume, found.Position, found.Needle);
        try
        {
            if (!stream.IsWhole(volume, found.Needle, found.HeaderChecksum))
                throw PackLookup.Damaged(volume, found.Position);
            return stream;
        }
        catch
        {
            stream.Dispose();
            throw;
        }
    }

    public override int Read(Span<byte> buffer)
    {
        // Under the lock, because Dispose may take away the mapping from which is copied.
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_volume is null, this);
            int wanted = (int)Math.Min(buffer.Length, Math.Max(0, _length - _position));
            if (wanted == 0)
                return 0;
            if (_volume.ReadAt(buffer[..wanted], _dataAt + _position) < wanted)
                throw PackLookup.Damaged(_volume, _needleAt);
            _position += wanted;
            return wanted;
        }
    }

    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        return Read(buffer.AsSpan(offset, count));
    }

    /// <summary>Reads on a thread of the pool, which may wait for the disk.</summary>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
        new(Task.Run(() => Read(buffer.Span), cancellationToken));

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    public override long Seek(long offset, SeekOrigin origin)
    {
        long from = origin switch
        {
            SeekOrigin.Begin => 0,
            SeekOrigin.Current => _position,
            SeekOrigin.End => _length,
            _ => throw new ArgumentOutOfRangeException(nameof(origin)),
        };
        if (from + offset < 0)
            throw new IOException("A place before the beginning of the object.");
        return _position = from + offset;
    }

    public override void Flush()
    {
    }

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    protected override void Dispose(bool disposing)
    {
        lock (_gate)
        {
            _volume?.Release();
            Volatile.Write(ref _volume, null);
        }

        base.Dispose(disposing);
    }

    private bool IsWhole(Volume volume, NeedleLayout needle, uint headerChecksum)
    {
        byte[] buffer = ArrayPool<byte>.Shared.Rent(ChunkLength);
        try
        {
            uint crc = uint.MaxValue;
            for (int done = 0; done < _length;)
            {
                Span<byte> chunk = buffer.AsSpan(0, Math.Min(ChunkLength, _length - done));
                if (volume.ReadAt(chunk, _dataAt + done) < chunk.Length)
                    return false;
                crc = Crc32C.Append(crc, ref MemoryMarshal.GetReference(chunk), chunk.Length);
                done += chunk.Length;
            }

            Span<byte> end = buffer.AsSpan(0, needle.PadLength + NeedleLayout.FooterLength);
            return volume.ReadAt(end, _dataAt + _length) == end.Length && needle.IsEndValid(end, headerChecksum, crc);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(buffer);
        }
    }
}

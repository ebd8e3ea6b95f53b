using System.Buffers.Binary;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Reads one segment file frame by frame, with positioned reads instead of a mapping: a file may be too short, and after a power
/// loss a mapping may show bytes that the disk does not hold. Reads ahead, from 4 KiB (a clean store is read in one place) to 64
/// KiB, with a buffer of that size: thousands of segments may be scanned in a row. Buffers of up to 1 MiB were new memory for
/// each search by number or time, whose page faults made it take 1.7 ms instead of 0.2.
/// </summary>
internal sealed class SegmentScanner(PlatformFile file, long start, long segmentLength, FrameChecksum checksum)
{
    private const int ReadAheadFirst = 4096;
    private const int ReadAheadMax = 64 * 1024;

    private byte[] _buffer = [];
    private int _readAhead = ReadAheadFirst;
    private long _bufferStart = -1;
    private long _fileLength = -1;
    private int _buffered;

    public long Start => start;

    /// <summary>The header at a position; 0 beyond the end of the file.</summary>
    public ulong HeaderAt(long position)
    {
        if (position + FrameHeader.Size > segmentLength)
            return 0;
        ReadOnlySpan<byte> bytes = Bytes(position, FrameHeader.Size);
        return bytes.Length < FrameHeader.Size ? 0 : BinaryPrimitives.ReadUInt64LittleEndian(bytes);
    }

    /// <summary>The header at a position; false when no frame can begin with it, or beyond the end of the file.</summary>
    public bool TryReadHeader(long position, out ulong header)
    {
        header = HeaderAt(position);
        return header != 0 && FrameHeader.IsPlausible(header, segmentLength - position);
    }

    /// <summary>
    /// Whether the file reaches this position. Its length is read once: reading it for each frame took most of the time of
    /// opening a store.
    /// </summary>
    public bool Reaches(long position)
    {
        if (_fileLength < 0)
            _fileLength = file.Length;
        return position <= _fileLength;
    }

    /// <summary>Whether the checksum of a message or of padding fits; the header is plausible.</summary>
    public bool IsWhole(ulong header, long position)
    {
        if (FrameHeader.State(header) == FrameState.Padding)
        {
            byte none = 0;
            return checksum.Matches(header, start + position, ref none);
        }

        // In pieces of a multiple of 8 bytes, except for the last: a message of 256 MiB needs no buffer of its length.
        uint crc = checksum.Begin(start + position, (uint)header);
        position += FrameHeader.Size;
        for (int left = FrameHeader.Length(header); left > 0;)
        {
            int piece = Math.Min(left, ReadAheadMax);
            ReadOnlySpan<byte> bytes = Bytes(position, piece);
            if (bytes.Length < piece)
                return false;
            crc = Crc32C.Append(crc, ref MemoryMarshal.GetReference(bytes), piece);
            position += piece;
            left -= piece;
        }

        return crc == FrameHeader.HighHalf(header);
    }

    /// <summary>
    /// The headers of an extended message at a position, valid until the next read; false when they cannot begin there.
    /// </summary>
    public bool TryReadHeaders(ulong header, long position, out MessageHeadersView headers)
    {
        int lengthMax = Math.Min(FrameHeader.Length(header), HeaderBlock.LengthMax);
        headers = new MessageHeadersView(Bytes(position + FrameHeader.Size, lengthMax));
        return !headers.IsEmpty;
    }

    /// <summary>A message's own time, in the unit of the index; null when it has none.</summary>
    public long? TimeOf(ulong header, long position) => FrameHeader.IsExtended(header)
        ? MessageTimes.TimeOf(
            header, Bytes(position + FrameHeader.Size, Math.Min(FrameHeader.Length(header), MessageTimes.Reach)))
        : null;

    /// <summary>The first byte at or after a position, below a limit, that is not zero; -1 when all are zero.</summary>
    public long FindNonZero(long position, long limit)
    {
        while (position < limit)
        {
            ReadOnlySpan<byte> bytes = Bytes(position, (int)Math.Min(_readAhead, limit - position));
            if (bytes.IsEmpty)
                return -1;
            int found = bytes.IndexOfAnyExcept((byte)0);
            if (found >= 0)
                return position + found;
            position += bytes.Length;
        }

        return -1;
    }

    /// <summary>
    /// As <see cref="FindNonZero"/>, but skips the holes that the file system reports: most of a prepared segment is holes.
    /// </summary>
    public long FindNonZeroData(long position, long limit)
    {
        const int PieceMax = 256 * 1024;
        while ((position = file.FindData(position)) < limit)
        {
            long end = Math.Min(limit, position + PieceMax);
            long found = FindNonZero(position, end);
            if (found >= 0)
                return found;
            position = end;
        }

        return -1;
    }

    /// <summary>Drops the buffered bytes, because the file was changed.</summary>
    public void Invalidate()
    {
        _bufferStart = -1;
        _fileLength = -1;
    }

    private ReadOnlySpan<byte> Bytes(long position, int length)
    {
        if (_bufferStart < 0 || position < _bufferStart || position + length > _bufferStart + _buffered)
        {
            int wanted = (int)Math.Min(Math.Max(length, _readAhead), segmentLength - position);
            if (_buffer.Length < wanted)
                _buffer = GC.AllocateUninitializedArray<byte>(wanted);
            _bufferStart = position;
            _readAhead = Math.Min(2 * _readAhead, ReadAheadMax);
            _buffered = ReadAhead(position, length, wanted);
        }

        int at = (int)(position - _bufferStart);
        return _buffer.AsSpan(at, Math.Clamp(_buffered - at, 0, length));
    }

    /// <summary>The disk may fail to give bytes that were only read ahead: they are read again when they are needed.</summary>
    private int ReadAhead(long position, int length, int wanted)
    {
        try
        {
            return file.ReadAt(_buffer.AsSpan(0, wanted), position);
        }
        catch (QueueDiskException) when (wanted > length)
        {
            _readAhead = ReadAheadFirst;
            return file.ReadAt(_buffer.AsSpan(0, length), position);
        }
    }
}

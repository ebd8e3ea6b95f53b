using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Checks frames of any length at any place of one segment, each in about the same short time. Among damaged bytes, thousands of
/// places look like the header of a message of many megabytes; reading each of those through would take hours. The file is read
/// once, as far as needed, and a running value is kept for each <see cref="Step"/> bytes.
/// </summary>
/// <param name="file">The segment.</param>
/// <param name="start">The segment's offset.</param>
/// <param name="from">No frame begins before this position.</param>
/// <param name="checksum">The checksum of its frames.</param>
internal sealed class RangeChecksum(PlatformFile file, long start, long from, FrameChecksum checksum)
{
    private const int Step = 512;

    private readonly byte[] _buffer = new byte[128 * Step];
    private readonly List<uint> _sums = [0];

    /// <summary>Whether a message or padding is whole; the header is plausible.</summary>
    public bool Matches(ulong header, long position)
    {
        uint seed = checksum.Begin(start + position, (uint)header);
        int length = FrameHeader.Length(header);
        if (FrameHeader.State(header) == FrameState.Padding || length == 0)
            return seed == FrameHeader.HighHalf(header);
        long payload = position + FrameHeader.Size;
        long end = payload + (length & ~7);
        if (!TrySum(payload, out uint before) || !TrySum(end, out uint after))
            return false;
        uint crc = after ^ Crc32CShift.OverZeros(before ^ seed, (end - payload) / 8);
        int rest = length & 7;
        if (rest != 0)
        {
            Span<byte> tail = stackalloc byte[8];
            if (file.ReadAt(tail[..rest], end) < rest)
                return false;
            tail[rest..].Clear();
            crc = (uint)Crc32C.Step(crc, BitConverter.ToUInt64(tail));
        }

        return crc == FrameHeader.HighHalf(header);
    }

    /// <summary>
    /// The running value over the bytes from the first position up to this one; false where the file ends before it.
    /// </summary>
    private bool TrySum(long position, out uint sum)
    {
        int index = (int)((position - from) / Step);
        sum = 0;
        while (_sums.Count <= index)
        {
            if (!TryReadOn())
                return false;
        }

        sum = _sums[index];
        int rest = (int)((position - from) % Step);
        if (rest == 0)
            return true;
        Span<byte> bytes = stackalloc byte[Step];
        if (file.ReadAt(bytes[..rest], from + ((long)index * Step)) < rest)
            return false;
        sum = Crc32C.Append(sum, ref bytes[0], rest);
        return true;
    }

    private bool TryReadOn()
    {
        int read = file.ReadAt(_buffer, from + ((_sums.Count - 1L) * Step));
        for (int at = 0; at + Step <= read; at += Step)
            _sums.Add(Crc32C.Append(_sums[^1], ref _buffer[at], Step));
        return read >= Step;
    }
}

using System.Buffers;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// Reads a volume's needles in sequence, for rebuilding, recovering, compacting and verifying. It checks every length against the
/// given end before it uses it. What it reads more than once, because headers and keys promised needles that are none, is a
/// small multiple of what it has passed. Needles that were written follow one another, so damage alone never reaches that limit.
/// </summary>
/// <param name="volume">The volume.</param>
/// <param name="start">Where it begins.</param>
/// <param name="end">It reads nothing from here on.</param>
/// <param name="readLength">How much it reads at a time: less than the default for a look at one needle.</param>
internal sealed class VolumeScanner(Volume volume, long start, long end, int readLength = VolumeScanner.BufferLength)
    : IDisposable
{
    /// <summary>Room for the longest header with its key, and for the chunks in which longer data is checked.</summary>
    public const int BufferLength = 512 * 1024;

    /// <summary>For a look at one needle.</summary>
    public const int LookLength = 4096;

    /// <summary>A multiple of 8, so that a CRC can continue from chunk to chunk.</summary>
    private const int ChunkLength = 256 * 1024;

    /// <summary>
    /// How many bytes of keys, and as many of data, may be checked in vain for each byte that is passed.
    /// </summary>
    private const int VainFactor = 4;

    /// <summary>How many bytes of keys may be checked in vain besides.</summary>
    private const int VainKeysMax = 16 * 1024 * 1024;

    private readonly long _start = start;
    private readonly byte[] _buffer = ArrayPool<byte>.Shared.Rent(BufferLength);
    private long _bufferStart;
    private int _bufferCount;
    private long _vainKeys;
    private long _vainBodies;

    public Volume Volume { get; } = volume;

    /// <summary>The position at which the next needle is expected.</summary>
    public long Position { get; private set; } = start;

    public bool IsAtEnd => Position >= end;

    /// <summary>The needle that was found last.</summary>
    public NeedleLayout Needle { get; private set; }

    public long NeedlePosition { get; private set; }

    public uint HeaderChecksum { get; private set; }

    /// <summary>The CRC of the data, if whole needles are checked.</summary>
    public uint DataCrc { get; private set; }

    /// <summary>The key of the needle that was found last; valid until the next call.</summary>
    public ReadOnlySpan<byte> Key => Window(NeedlePosition + NeedleLayout.HeaderLength, Needle.KeyLength);

    /// <summary>
    /// Finds the needle at this position and moves past it; false if there is none with a higher sequence. With
    /// <paramref name="wholeNeedle"/> its data is checked too.
    /// </summary>
    public bool TryNext(ulong sequenceAbove, bool wholeNeedle)
    {
        if (!IsValid(Position, sequenceAbove, wholeNeedle))
            return false;
        Position += Needle.Length;
        return true;
    }

    /// <summary>
    /// Looks at header and key at this position, whether or not the rest of the needle is there; false if they are not valid.
    /// </summary>
    public bool TryLook(out NeedleLayout needle)
    {
        if (!NeedleLayout.TryRead(Window(Position, NeedleLayout.HeaderLength), out needle))
            return false;
        ReadOnlySpan<byte> head = Window(Position, needle.DataAt);
        return head.Length == needle.DataAt && NeedleLayout.StoredHeaderChecksum(head) == NeedleLayout.HeaderChecksum(
            Volume.Seed, Position, head, NeedleLayout.ContentCrc(head[NeedleLayout.HeaderLength..]));
    }

    /// <summary>
    /// Moves from a position without a needle to the next needle, which <see cref="TryNext"/> then finds. Moves to the end if
    /// there is none.
    /// </summary>
    public bool TryResync(ulong sequenceAbove, bool wholeNeedle)
    {
        for (long at = Position + NeedleLayout.Unit; at < end;)
        {
            ReadOnlySpan<byte> window = Window(at, (int)Math.Min(ChunkLength, end - at));
            int found = window.IndexOf("NdL1"u8);
            if (found < 0)
            {
                // The first bytes of a magic may be at the very end of the window, but not at a multiple of 8.
                at += Math.Max(NeedleLayout.Unit, window.Length & -NeedleLayout.Unit);
                at = Math.Max(at, Volume.File.FindData(at) & -NeedleLayout.Unit);
                continue;
            }

            long candidate = at + found;
            if (candidate % NeedleLayout.Unit == 0 && IsValid(candidate, sequenceAbove, wholeNeedle))
            {
                Position = candidate;
                return true;
            }

            at = (candidate & -NeedleLayout.Unit) + NeedleLayout.Unit;
        }

        Position = end;
        return false;
    }

    /// <summary>Bytes of the file, at most as many as the buffer holds; fewer at the end.</summary>
    public ReadOnlySpan<byte> Window(long position, int length)
    {
        int wanted = (int)Math.Min(Math.Min(length, BufferLength), Math.Max(0, end - position));
        bool isThere = position >= _bufferStart && position + wanted <= _bufferStart + _bufferCount;
        if (!isThere)
        {
            _bufferStart = position;
            int room = (int)Math.Min(Math.Max(wanted, readLength), Math.Max(0, end - position));
            _bufferCount = Volume.File.ReadAt(_buffer.AsSpan(0, room), position);
        }

        int at = (int)(position - _bufferStart);
        return _buffer.AsSpan(at, Math.Clamp(_bufferCount - at, 0, wanted));
    }

    public void Dispose() => ArrayPool<byte>.Shared.Return(_buffer);

    private bool IsValid(long position, ulong sequenceAbove, bool wholeNeedle)
    {
        if (!NeedleLayout.TryRead(Window(position, NeedleLayout.HeaderLength), out NeedleLayout needle))
            return false;
        long allowance = VainFactor * (position - _start);
        if (needle.Sequence <= sequenceAbove || needle.Length > end - position
            || needle.KeyLength > allowance + VainKeysMax - _vainKeys)
            return false;
        ReadOnlySpan<byte> head = Window(position, needle.DataAt);
        if (head.Length < needle.DataAt)
            return false;
        uint keyCrc = NeedleLayout.ContentCrc(head[NeedleLayout.HeaderLength..]);
        uint checksum = NeedleLayout.HeaderChecksum(Volume.Seed, position, head, keyCrc);
        if (checksum != NeedleLayout.StoredHeaderChecksum(head))
        {
            _vainKeys += needle.KeyLength;
            return false;
        }

        if (wholeNeedle && needle.Length > allowance + NeedleLayout.LengthMax - _vainBodies)
            return false;
        if (wholeNeedle && !IsBodyValid(position, needle, checksum))
        {
            _vainBodies += needle.Length;
            return false;
        }

        (Needle, NeedlePosition, HeaderChecksum) = (needle, position, checksum);
        return true;
    }

    private bool IsBodyValid(long position, NeedleLayout needle, uint checksum)
    {
        uint crc = uint.MaxValue;
        long at = position + needle.DataAt;
        for (int left = needle.DataLength; left > 0;)
        {
            int length = Math.Min(left, ChunkLength);
            ReadOnlySpan<byte> chunk = Window(at, length);
            if (chunk.Length < length)
                return false;
            crc = Crc32C.Append(crc, ref MemoryMarshal.GetReference(chunk), length);
            at += length;
            left -= length;
        }

        DataCrc = crc;
        int endLength = needle.PadLength + NeedleLayout.FooterLength;
        ReadOnlySpan<byte> padAndFooter = Window(at, endLength);
        return padAndFooter.Length == endLength && needle.IsEndValid(padAndFooter, checksum, crc);
    }
}

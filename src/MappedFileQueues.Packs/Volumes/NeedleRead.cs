using System.Buffers;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>What a look at a needle found.</summary>
internal enum NeedleMatch
{
    /// <summary>The key that was looked for.</summary>
    Same,

    /// <summary>A valid needle of another key, which has the same tag by chance.</summary>
    Other,

    /// <summary>No valid needle.</summary>
    Damaged,
}

/// <summary>
/// One needle on its way from a volume to the caller: the bytes that were read so far, and a reference on their volume. It never
/// reads beyond the volume's tail, whatever a length in the file says.
/// </summary>
internal ref struct NeedleRead : IDisposable
{
    /// <summary>Enough for the header, and in most cases for the key.</summary>
    private const int HeaderReadLength = 256;

    /// <summary>The length of the first read for a needle whose size class gives no length.</summary>
    private const int LargeReadLength = 4096;

    private Span<byte> _buffer;
    private byte[]? _rented;
    private int _read;
    private Volume? _volume;

    /// <summary>Starts with the caller's buffer; rents a larger one if needed.</summary>
    public NeedleRead(Span<byte> buffer) => _buffer = buffer;

    /// <summary>The needle, after a look has found it valid.</summary>
    public NeedleLayout Needle { get; private set; }

    public uint HeaderChecksum { get; private set; }

    public long Position { get; private set; }

    /// <summary>The needle's volume. This object holds a reference on it until <see cref="Dispose"/>.</summary>
    public readonly Volume Volume => _volume!;

    /// <summary>The key's bytes.</summary>
    public readonly ReadOnlySpan<byte> Key => _buffer.Slice(NeedleLayout.HeaderLength, Needle.KeyLength);

    /// <summary>Whether header, key, data and footer have all been read.</summary>
    public readonly bool IsWhole => _read >= Needle.Length;

    /// <summary>The data, if the needle is whole.</summary>
    public readonly ReadOnlySpan<byte> Data => _buffer.Slice(Needle.DataAt, Needle.DataLength);

    /// <summary>
    /// Reads header and key at a position and compares the key. Takes over the caller's reference on the volume, and releases it
    /// unless the key is the same. A <paramref name="readLength"/> of 0 means that the length is unknown.
    /// </summary>
    public NeedleMatch Look(Volume acquired, long position, int readLength, ReadOnlySpan<byte> key, bool wholeNeedle)
    {
        Begin(acquired, position);
        int first = readLength == 0 ? LargeReadLength : readLength;
        acquired.Around.Ask(position, first);
        int headerLength = wholeNeedle ? first : Math.Min(first, HeaderReadLength);
        bool isValid = TryLookAtHeader(headerLength);
        if (!isValid && acquired.Mapping?.Refuse() == true)
        {
            _read = 0;
            isValid = TryLookAtHeader(headerLength);
        }

        NeedleMatch match = !isValid ? NeedleMatch.Damaged : Key.SequenceEqual(key) ? NeedleMatch.Same : NeedleMatch.Other;
        if (match == NeedleMatch.Same && Needle.Kind != NeedleKind.Value)
            match = NeedleMatch.Damaged;
        if (match != NeedleMatch.Same)
            Release();
        return match;
    }

    /// <summary>
    /// Reads header and key at a position, whatever the key is; false if they are not valid. Takes over the caller's reference on
    /// the volume.
    /// </summary>
    public bool LookAtAny(Volume acquired, long position)
    {
        Begin(acquired, position);
        return TryLookAtHeader(HeaderReadLength);
    }

    /// <summary>Reads the rest of the needle, for a caller that needs it in one piece.</summary>
    public void ReadRest() => Fill(Needle.Length);

    /// <summary>Whether data and footer are valid. The whole needle has to be read first.</summary>
    public readonly bool IsBodyValid() =>
        IsWhole && Needle.IsEndValid(
            _buffer[(Needle.DataAt + Needle.DataLength)..Needle.Length], HeaderChecksum, NeedleLayout.ContentCrc(Data));

    /// <summary>Reads the data directly into the caller's memory; false if it is not valid.</summary>
    public readonly bool TryReadData(Span<byte> destination)
    {
        Span<byte> end = stackalloc byte[NeedleLayout.Unit + NeedleLayout.FooterLength];
        end = end[..(Needle.Length - Needle.DataAt - Needle.DataLength)];
        return Volume.ReadAt(destination, Position + Needle.DataAt) == destination.Length
            && Volume.ReadAt(end, Position + Needle.DataAt + Needle.DataLength) == end.Length
            && Needle.IsEndValid(end, HeaderChecksum, NeedleLayout.ContentCrc(destination));
    }

    /// <summary>Hands over the rented array with the data in it; null if the bytes are in the caller's own buffer.</summary>
    public byte[]? Detach()
    {
        byte[]? rented = _rented;
        _rented = null;
        return rented;
    }

    public void Dispose()
    {
        Release();
        if (_rented is not null)
            ArrayPool<byte>.Shared.Return(_rented);
        _rented = null;
    }

    private void Begin(Volume acquired, long position)
    {
        Release();
        (_volume, Position, _read) = (acquired, position, 0);
    }

    private void Release()
    {
        _volume?.Release();
        _volume = null;
    }

    private bool TryLookAtHeader(int firstLength)
    {
        Fill(firstLength);
        if (!NeedleLayout.TryRead(_buffer[.._read], out NeedleLayout needle) || needle.Length > Volume.Tail - Position)
            return false;
        Fill(needle.DataAt);
        if (_read < needle.DataAt)
            return false;
        Needle = needle;
        uint keyCrc = NeedleLayout.ContentCrc(Key);
        HeaderChecksum = NeedleLayout.HeaderChecksum(Volume.Seed, Position, _buffer, keyCrc);
        return HeaderChecksum == NeedleLayout.StoredHeaderChecksum(_buffer);
    }

    /// <summary>Reads until the buffer holds this much of the needle, or the volume ends.</summary>
    private void Fill(int length)
    {
        int wanted = (int)Math.Min(length, Math.Max(0, Volume.Tail - Position));
        if (wanted <= _read)
            return;
        if (wanted > _buffer.Length)
        {
            byte[] larger = ArrayPool<byte>.Shared.Rent(wanted);
            _buffer[.._read].CopyTo(larger);
            if (_rented is not null)
                ArrayPool<byte>.Shared.Return(_rented);
            _rented = larger;
            _buffer = larger;
        }

        _read += Volume.ReadAt(_buffer[_read..wanted], Position + _read);
    }
}

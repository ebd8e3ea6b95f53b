using System.Buffers;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>Copies needles of old volumes to a new one, through a buffer, with the checksums of their new places.</summary>
internal sealed class NeedleCopier(PlatformFile file, uint volumeSeed) : IDisposable
{
    private const int BufferLength = 1024 * 1024;

    private readonly byte[] _buffer = ArrayPool<byte>.Shared.Rent(BufferLength);
    private long _written = VolumeHeader.Length;
    private int _count;

    /// <summary>Copies the needle that the scanner has found and checked completely. Returns its new position.</summary>
    public long Copy(VolumeScanner scanner)
    {
        long position = _written + _count;
        NeedleLayout needle = scanner.Needle with { Synced = 0 };
        Span<byte> header = stackalloc byte[NeedleLayout.HeaderLength];
        uint keyCrc = NeedleLayout.ContentCrc(scanner.Key);
        uint checksum = needle.WriteHeader(header, volumeSeed, position, keyCrc);
        Add(header);
        long from = scanner.NeedlePosition + NeedleLayout.HeaderLength;
        for (int left = needle.KeyLength + needle.DataLength + needle.PadLength; left > 0;)
        {
            ReadOnlySpan<byte> window = scanner.Window(from, left);
            if (window.IsEmpty)
                throw PackLookup.Damaged(scanner.Volume, scanner.NeedlePosition);
            Add(window);
            from += window.Length;
            left -= window.Length;
        }

        Span<byte> footer = stackalloc byte[NeedleLayout.FooterLength];
        NeedleLayout.WriteFooter(footer, checksum, scanner.DataCrc);
        Add(footer);
        return position;
    }

    public void Flush()
    {
        file.WriteAt(_buffer.AsSpan(0, _count), _written);
        _written += _count;
        _count = 0;
    }

    public void Dispose() => ArrayPool<byte>.Shared.Return(_buffer);

    private void Add(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            if (_count == BufferLength)
                Flush();
            int length = Math.Min(bytes.Length, BufferLength - _count);
            bytes[..length].CopyTo(_buffer.AsSpan(_count));
            _count += length;
            bytes = bytes[length..];
        }
    }
}

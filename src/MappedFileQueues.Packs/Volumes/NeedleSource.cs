using System.Buffers;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// A needle that is about to be written, with everything that can be computed before its place is known. A short needle is
/// assembled in one buffer, so that one write stores it. Long data is written directly from the caller's memory.
/// </summary>
internal ref struct NeedleSource : IDisposable
{
    /// <summary>A needle of up to this length is copied into the buffer and written by one call.</summary>
    public const int OneWriteMax = 256 * 1024;

    private readonly byte[] _buffer;
    private readonly ReadOnlySpan<byte> _longData;
    private readonly uint _keyCrc;
    private readonly uint _dataCrc;

    public NeedleSource(NeedleKind kind, ReadOnlySpan<byte> key, ReadOnlySpan<byte> data)
    {
        Layout = new NeedleLayout(kind, 0, key.Length, data.Length, 0);
        _keyCrc = NeedleLayout.ContentCrc(key);
        _dataCrc = NeedleLayout.ContentCrc(data);
        bool isLong = Layout.Length > OneWriteMax;
        _longData = isLong ? data : default;
        _buffer = ArrayPool<byte>.Shared.Rent(isLong ? Layout.Length - data.Length : Layout.Length);
        key.CopyTo(_buffer.AsSpan(NeedleLayout.HeaderLength));
        if (!isLong)
            data.CopyTo(_buffer.AsSpan(Layout.DataAt));
        int padAt = Layout.DataAt + (isLong ? 0 : data.Length);
        _buffer.AsSpan(padAt, Layout.PadLength).Clear();
    }

    /// <summary>The needle; <see cref="WriteTo"/> sets sequence and synced position.</summary>
    public NeedleLayout Layout { get; private set; }

    /// <summary>Writes the needle at this position; the caller holds the writer's lock.</summary>
    public void WriteTo(Volume volume, long position, ulong sequence)
    {
        Layout = Layout with { Sequence = sequence, Synced = volume.Synced };
        uint checksum = Layout.WriteHeader(_buffer, volume.Seed, position, _keyCrc);
        int headAndEnd = Layout.Length - _longData.Length;
        NeedleLayout.WriteFooter(_buffer.AsSpan(headAndEnd - NeedleLayout.FooterLength), checksum, _dataCrc);
        if (_longData.IsEmpty)
        {
            volume.File.WriteAt(_buffer.AsSpan(0, headAndEnd), position);
            return;
        }

        int endLength = Layout.PadLength + NeedleLayout.FooterLength;
        volume.File.WriteAt(_buffer.AsSpan(0, Layout.DataAt), position);
        Memory.ProtocolSteps.Reach(Memory.ProtocolStep.PackHeaderWritten);
        volume.File.WriteAt(_longData, position + Layout.DataAt);
        volume.File.WriteAt(_buffer.AsSpan(Layout.DataAt, endLength), position + Layout.DataAt + _longData.Length);
    }

    public readonly void Dispose() => ArrayPool<byte>.Shared.Return(_buffer);
}

using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// One mapped segment of this queue, shared by its producers and consumers. <see cref="SegmentWindow"/> counts who is in it and
/// unmaps it after the last one left.
/// </summary>
internal sealed unsafe class SegmentMapping
{
    private readonly MappedRegion? _region;

    public SegmentMapping(PlatformFile file, long start, long segmentLength, bool writable)
    {
        File = file;
        Start = start;
        SegmentLength = segmentLength;
        // A file that somebody truncated is mapped only as far as it goes: a page beyond the end of a file is SIGBUS.
        Usable = Math.Min(file.Length, segmentLength) & ~(FrameHeader.Size - 1L);
        if (Usable > 0)
            _region = new MappedRegion(file, Usable, writable);
        Pointer = _region is null ? null : _region.Pointer;
    }

    /// <summary>Kept open: a write-back error is reported to each descriptor that was open before it.</summary>
    public PlatformFile File { get; }

    /// <summary>The offset of the first byte.</summary>
    public long Start { get; }

    /// <summary>The length that the store's meta page says.</summary>
    public long SegmentLength { get; }

    /// <summary>The offset behind the last byte.</summary>
    public long End => Start + SegmentLength;

    /// <summary>How many bytes are mapped; less than <see cref="SegmentLength"/> only when the file was truncated.</summary>
    public long Usable { get; }

    /// <summary>The first byte of the mapping; null when nothing is left of the file.</summary>
    public byte* Pointer { get; }

    /// <summary>Up to this position the pages were made present in this mapping. Written under the preparer's lock.</summary>
    public long TouchedTo { get; set; }

    /// <summary>How many hold it; guarded by the window's lock.</summary>
    internal int References { get; set; }

    /// <summary>The header at a position that lies inside the mapping.</summary>
    public ulong* HeaderAt(long position)
    {
        Debug.Assert(position >= 0 && position + FrameHeader.Size <= Usable && position % FrameHeader.Size == 0);
        return (ulong*)(Pointer + position);
    }

    /// <summary>
    /// Makes pages present for writing up to a position, from where that was done before or from <paramref name="from"/>.
    /// </summary>
    /// <param name="from">Where to begin.</param>
    /// <param name="to">Where to end.</param>
    /// <param name="singly">Each page by itself (<see cref="MappedView.StopReadAhead"/>).</param>
    /// <returns>False when that was done before.</returns>
    public bool TouchTo(long from, long to, bool singly)
    {
        from = Math.Max(from, TouchedTo);
        if (_region is null || to <= from)
            return false;
        from &= ~4095L;
        if (singly)
        {
            _region.StopReadAhead(from, to - from);
            File.CacheSinglePages(from, to - from);
        }

        _region.Touch(from, to - from);
        TouchedTo = to;
        return true;
    }

    /// <summary>Takes the pages between two positions out of the mapping before they are written back.</summary>
    public void LetGoOfPages(long from, long to) => _region?.LetGoOfPages(from, Math.Min(to, Usable) - from);

    /// <summary>Unmaps; the file stays open.</summary>
    public void Unmap() => _region?.Dispose();
}

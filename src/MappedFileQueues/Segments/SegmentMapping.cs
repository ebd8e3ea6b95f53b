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
    /// <summary>
    /// So much of what a producer finds not ready is brought in at a time: page by page it would take twice as long.
    /// </summary>
    private const int WritableAtOnce = 64 * 1024;

    private readonly MappedRegion? _region;
    private readonly bool _looksFillHoles;

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
        _looksFillHoles = file.LooksFillHoles;
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

    /// <summary>
    /// Up to this position the pages were made present in this mapping. Written under the preparer's lock, a hint for others.
    /// </summary>
    public long TouchedTo { get; private set; }

    /// <summary>How many hold it; guarded by the window's lock.</summary>
    internal int References { get; set; }

    /// <summary>The header at a position that lies inside the mapping.</summary>
    public ulong* HeaderAt(long position)
    {
        Debug.Assert(position >= 0 && position + FrameHeader.Size <= Usable && position % FrameHeader.Size == 0);
        return (ulong*)(Pointer + position);
    }

    /// <summary>
    /// Asks for the pages of a range before it is looked at: a load from a page that the disk cannot give ends the process.
    /// </summary>
    /// <param name="from">The position to begin at; inside the mapping, as are the others.</param>
    /// <param name="needed">So far the pages have to be there.</param>
    /// <param name="wanted">So far they may be asked for; at or above <paramref name="needed"/>.</param>
    /// <returns>Up to where they are there: below <paramref name="needed"/> only where the file has become shorter.</returns>
    /// <exception cref="QueueDiskException">The disk cannot give a page below <paramref name="needed"/>.</exception>
    public long MakeReadable(long from, long needed, long wanted)
    {
        // The padded rest of a segment may have no blocks, and shall not get any for being asked for.
        if (_looksFillHoles)
            wanted = Math.Max(needed, _region!.CachedTo(from, wanted));
        long there = _region!.MakeReadable(File, from, wanted, out QueueDiskException? error);
        return there >= needed || error is null ? there : throw AtOffset(error, there);
    }

    /// <summary>
    /// As <see cref="MakeReadable"/>, for a range that will be written in order. What is in memory already is left as it is: a
    /// page that is touched for writing goes to the disk with the next flush.
    /// </summary>
    /// <param name="from">The position to begin at; inside the mapping, as are the others.</param>
    /// <param name="needed">So far it has to be there.</param>
    /// <param name="wanted">So far it is looked for in memory; at or above <paramref name="needed"/>.</param>
    /// <param name="singly">What is not there: each page by itself (<see cref="MappedView.StopReadAhead"/>).</param>
    /// <returns>As there.</returns>
    /// <exception cref="QueueDiskException">Also when the disk takes no writes into a page below
    /// <paramref name="needed"/>.</exception>
    public long MakeWritable(long from, long needed, long wanted, bool singly)
    {
        long enough = Math.Max(needed, Math.Min(wanted, from + WritableAtOnce));
        if (!_region!.TellsWhatIsThere)
            // What the preparer has touched was looked at by it.
            return needed <= TouchedTo ? Math.Min(wanted, TouchedTo) : MakeReadable(from, needed, enough);
        long cached = _region.CachedTo(from, wanted);
        if (cached >= enough)
            return cached;
        if (singly)
            CacheSingly(cached, enough - cached);
        if (_region.TryTouchForWriting(cached, enough - cached))
            return enough;
        // Why not? Where the pages can be read, it is the writing.
        long there = MakeReadable(from, needed, needed);
        if (there < needed || _region.TryTouchForWriting(from, needed - from))
            return there;
        throw AtOffset(DiskErrors.Make("Cannot write into a mapped page", File.Path, DiskErrors.EIO, "it can be read"), from);
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
        // Touching is a look then, and here nobody waits for an error.
        if (!_region.TellsWhatIsThere)
            to = _region.MakeReadable(File, from, to, out _);
        if (singly)
            CacheSingly(from, to - from);
        _region.Touch(from, to - from);
        TouchedTo = to;
        return true;
    }

    /// <summary>Takes the pages between two positions out of the mapping before they are written back.</summary>
    public void LetGoOfPages(long from, long to) => _region?.LetGoOfPages(from, Math.Min(to, Usable) - from);

    /// <summary>Unmaps; the file stays open.</summary>
    public void Unmap() => _region?.Dispose();

    private void CacheSingly(long from, long length)
    {
        _region!.StopReadAhead(from, length);
        File.CacheSinglePages(from, length);
    }

    private QueueDiskException AtOffset(QueueDiskException error, long position) =>
        new($"A part of the log is not to be had: offset={Start + position}, file={StoreNames.Segment(Start)}. {error.Message}",
            error.Errno, error.Path, error);
}

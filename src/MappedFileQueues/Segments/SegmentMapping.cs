using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// One mapped segment of this queue, shared by its producers and consumers. <see cref="SegmentWindow"/> counts its users and
/// unmaps it after the last one has left.
/// </summary>
internal sealed unsafe class SegmentMapping
{
    /// <summary>
    /// Pages that a producer finds not ready are brought in by this many bytes at a time: page by page takes twice as long.
    /// </summary>
    private const int WritableAtOnce = 64 * 1024;

    private readonly MappedRegion? _region;
    private readonly bool _looksFillHoles;
    private bool _hasLetGo;

    public SegmentMapping(PlatformFile file, long start, long segmentLength, bool writable)
    {
        File = file;
        Start = start;
        SegmentLength = segmentLength;
        // A truncated file is mapped only up to its end: a page beyond the end of a file is SIGBUS.
        long length = file.Length;
        IsRecycled = length > segmentLength;
        Usable = Math.Min(length, segmentLength) & ~(FrameHeader.Size - 1L);
        if (Usable > 0)
            _region = new MappedRegion(file, Usable, writable);
        Pointer = _region is null ? null : _region.Pointer;
        _looksFillHoles = file.LooksFillHoles;
    }

    /// <summary>A mapping of a segment that is gone, for the segment that its file has become.</summary>
    public SegmentMapping(SegmentMapping idle, long start)
    {
        File = idle.File;
        Start = start;
        SegmentLength = idle.SegmentLength;
        IsRecycled = true;
        Usable = idle.Usable;
        _region = idle._region;
        Pointer = idle.Pointer;
        _looksFillHoles = idle._looksFillHoles;
        TouchedTo = idle._hasLetGo ? 0 : idle.TouchedTo;
    }

    /// <summary>Kept open: a write-back error is reported to each descriptor that was open before it.</summary>
    public PlatformFile File { get; }

    /// <summary>The offset of the first byte.</summary>
    public long Start { get; }

    /// <summary>The segment length from the store's meta page.</summary>
    public long SegmentLength { get; }

    /// <summary>The offset after the last byte.</summary>
    public long End => Start + SegmentLength;

    /// <summary>How many bytes are mapped; less than <see cref="SegmentLength"/> only when the file was truncated.</summary>
    public long Usable { get; }

    /// <summary>After what is allocated there may be bytes of the segment that this file was before.</summary>
    public bool IsRecycled { get; }

    /// <summary>
    /// The store was still in place when the file had been opened, so it is the store's: another one in the same folder has
    /// files of the same names. Set by a reader that has looked; one that does not see it looks itself.
    /// </summary>
    public bool IsOfThisStore { get; set; }

    /// <summary>The first byte of the mapping; null when nothing is left of the file.</summary>
    public byte* Pointer { get; }

    /// <summary>
    /// The pages before this position are present in this mapping. Written under the preparer's lock; a hint for others.
    /// </summary>
    public long TouchedTo { get; private set; }

    /// <summary>Which file it is, while nobody uses the mapping; guarded by the window's lock.</summary>
    internal FileIdentity Identity { get; set; }

    /// <summary>How many users hold it; guarded by the window's lock.</summary>
    internal int References { get; set; }

    /// <summary>The header at a position that is inside the mapping.</summary>
    public ulong* HeaderAt(long position)
    {
        Debug.Assert(position >= 0 && position + FrameHeader.Size <= Usable && position % FrameHeader.Size == 0);
        return (ulong*)(Pointer + position);
    }

    /// <inheritdoc cref="MappedView.CachedTo"/>
    public long CachedTo(long from, long to) => _region!.CachedTo(from, Math.Max(from, to));

    /// <summary>
    /// Asks for the pages of a range before the caller reads it: a load from a page that the disk cannot give ends the process.
    /// </summary>
    /// <param name="from">The position to begin at; inside the mapping, as are the others.</param>
    /// <param name="needed">The pages must be there up to here.</param>
    /// <param name="wanted">The pages may be requested up to here; at or above <paramref name="needed"/>.</param>
    /// <returns>The end of the pages that are there: below <paramref name="needed"/> only when the file has become
    /// shorter.</returns>
    /// <exception cref="QueueDiskException">The disk cannot give a page below <paramref name="needed"/>.</exception>
    public long MakeReadable(long from, long needed, long wanted)
    {
        // The padded rest of a segment may have no blocks; a request must not give it any.
        if (_looksFillHoles)
            wanted = Math.Max(needed, _region!.CachedTo(from, wanted));
        long there = _region!.MakeReadable(File, from, wanted, out QueueDiskException? error);
        return there >= needed || error is null ? there : throw AtOffset(error, there);
    }

    /// <summary>
    /// As <see cref="MakeReadable"/>, for a range that will be written in order. Pages that are already in memory stay as they
    /// are: a page that is touched for writing goes to the disk with the next flush.
    /// </summary>
    /// <param name="from">The position to begin at; inside the mapping, as are the others.</param>
    /// <param name="needed">The pages must be there up to here.</param>
    /// <param name="wanted">The pages are looked for in memory up to here; at or above <paramref name="needed"/>.</param>
    /// <param name="singly">Bring in each missing page by itself (<see cref="MappedView.StopReadAhead"/>).</param>
    /// <returns>As <see cref="MakeReadable"/>.</returns>
    /// <exception cref="QueueDiskException">Also when the disk refuses writes into a page below
    /// <paramref name="needed"/>.</exception>
    public long MakeWritable(long from, long needed, long wanted, bool singly)
    {
        long enough = Math.Max(needed, Math.Min(wanted, from + WritableAtOnce));
        if (!_region!.TellsWhatIsThere)
            // The preparer has read the pages that it touched.
            return needed <= TouchedTo ? Math.Min(wanted, TouchedTo) : MakeReadable(from, needed, enough);
        long cached = _region.CachedTo(from, wanted);
        if (cached >= enough)
            return cached;
        if (singly)
            CacheSingly(cached, enough - cached);
        if (_region.TryTouchForWriting(cached, enough - cached))
            return enough;
        // Find the reason: if the pages can be read, writing is what fails.
        long there = MakeReadable(from, needed, needed);
        if (there < needed || _region.TryTouchForWriting(from, needed - from))
            return there;
        throw AtOffset(DiskErrors.Make("Cannot write into a mapped page", File.Path, DiskErrors.EIO, "it can be read"), from);
    }

    /// <summary>
    /// Makes pages present for writing up to a position. Begins where the last call ended, at the earliest at
    /// <paramref name="from"/>.
    /// </summary>
    /// <param name="from">Where to begin.</param>
    /// <param name="to">Where to end.</param>
    /// <param name="singly">Each page by itself (<see cref="MappedView.StopReadAhead"/>).</param>
    /// <returns>False when the pages were already present.</returns>
    public bool TouchTo(long from, long to, bool singly)
    {
        from = Math.Max(from, TouchedTo);
        if (_region is null || to <= from)
            return false;
        from &= ~4095L;
        // Touching reads the pages then, and no caller waits for an error here.
        if (!_region.TellsWhatIsThere)
            to = _region.MakeReadable(File, from, to, out _);
        if (singly)
            CacheSingly(from, to - from);
        _region.Touch(from, to - from);
        TouchedTo = to;
        return true;
    }

    /// <summary>
    /// Zeroes a range through the mapping, which takes less time than a write. False, with nothing changed, where its pages are
    /// not in memory: to zero them, the system would first read them from the disk.
    /// </summary>
    public bool TryZero(long from, long to)
    {
        if (_region is null || to > Usable || _region.CachedTo(from, to) < to || !_region.TryTouchForWriting(from, to - from))
            return false;
        for (long at = from; at < to; at += WritableAtOnce)
            NativeMemory.Clear(Pointer + at, (nuint)Math.Min(WritableAtOnce, to - at));
        return true;
    }

    /// <summary>Takes the pages between two positions out of the mapping before they are written back.</summary>
    public void LetGoOfPages(long from, long to)
    {
        _hasLetGo = true;
        _region?.LetGoOfPages(from, Math.Min(to, Usable) - from);
    }

    /// <summary>Unmaps; the file stays open.</summary>
    public void Unmap() => _region?.Dispose();

    private void CacheSingly(long from, long length)
    {
        _region!.StopReadAhead(from, length);
        File.CacheSinglePages(from, length);
    }

    private QueueDiskException AtOffset(QueueDiskException error, long position) =>
        new($"A part of the log is unavailable: offset={Start + position}, file={StoreNames.Segment(Start)}. {error.Message}",
            error.Errno, error.Path, error);
}

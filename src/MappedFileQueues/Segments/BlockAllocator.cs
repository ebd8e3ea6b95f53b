using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// Gives the log blocks ahead of the tail, so that the append path never stores into a hole. On a full disk a store into a hole
/// kills the process; an allocation throws an exception. Any thread of any process.
/// </summary>
internal sealed unsafe class BlockAllocator(
    HeldDirectory directory, SegmentWindow window, ControlPage control, SegmentMaker maker)
{
    /// <summary>
    /// Before <see cref="Allocated"/> rises, blocks are allocated up to the end of such a piece. It is as long as the longest
    /// unit in which the system caches a file (a large folio, with pages of 4 KiB). Before the first store into a unit, the
    /// system asks for the blocks of all of it. On a full disk a store into a page with blocks ended the process, because the
    /// page was part of a unit that reached beyond them (ext4 and XFS, Linux 6.18).
    /// </summary>
    public const long PieceLength = 2 * 1024 * 1024;

    /// <summary>The largest single allocation: 1 MiB takes about 1 ms with touching, so no thread waits long for one.</summary>
    public const long StepMax = 1024 * 1024;

    /// <summary>From the tail up to here all blocks exist.</summary>
    // P20 acquire: pairs with P20 full in TryEnsureAllocated.
    public long Allocated => SharedWord.ReadAcquire(control.Allocated);

    /// <summary>As <see cref="TryEnsureAllocated"/>, for callers that cannot use the next segment instead.</summary>
    public void EnsureAllocated(long target, Action? look = null)
    {
        if (!TryEnsureAllocated(target, look))
            throw CannotGrow(target);
    }

    /// <summary>
    /// Makes sure that all blocks up to <paramref name="target"/> exist, making segments as needed, and raises
    /// <see cref="ControlPage.Allocated"/>. False when a segment on the way has too few blocks and cannot get more here: then
    /// appends continue in the next one. Concurrent calls in any process are safe. A full disk throws
    /// <see cref="QueueDiskException"/>.
    /// </summary>
    /// <param name="target">The offset up to which blocks must exist.</param>
    /// <param name="look">As the maker's own, for this call alone.</param>
    public bool TryEnsureAllocated(long target, Action? look = null)
    {
        while (true)
        {
            // P20 acquire: the raise of the bound came after the allocation; pairs with P20 full below.
            long allocated = SharedWord.ReadAcquire(control.Allocated);
            if (allocated >= target)
                return true;
            long start = window.StartOf(allocated);
            long position = allocated - start;
            long end = start + window.SegmentLength;
            long next = Math.Min(end, RoundUp(allocated + Math.Clamp(target - allocated, SegmentMaker.FirstBlocks, StepMax)));
            long pieceEnd = Math.Min(window.SegmentLength, (next - start + PieceLength - 1) & -PieceLength);
            if (position == 0)
                // No further: the rest of a recycled segment is not zeroed yet.
                next = Math.Min(Math.Min(next, start + maker.FirstLength(0)), start + maker.Make(start, pieceEnd, look));
            else if (!maker.IsWhole(start) && !TryExtend(start, position, pieceEnd - position, next - start, look))
                return false;
            if (maker.IsWhole(start))
                next = end;

            // P20 full: the blocks exist before any store into them; pairs with P20 acquire above.
            SharedWord.RaiseTo(control.Allocated, next);
        }
    }

    /// <summary>
    /// False where blocks cannot be allocated in place, and while another process stands still that zeroes a recycled segment.
    /// </summary>
    private bool TryExtend(long start, long position, long length, long end, Action? look)
    {
        if (!maker.AllocatesInPlace)
            return false;
        using SegmentWindow.Use use = window.BeginUse(start);
        SegmentMapping mapping = use.Segment
            ?? throw new QueueCorruptException($"A segment is missing: offset={start + position}, "
                + $"file={StoreNames.Segment(start)}. What is before it can be read; restore the file, or run `mfq repair`.",
                StoreNames.Segment(start), start + position);
        long fileLength = mapping.File.Length;
        if (fileLength < window.SegmentLength)
            throw ZeroFill.TooShort(StoreNames.Segment(start), fileLength, window.SegmentLength);
        return maker.TryAllocate(mapping.File, position, length)
            && (!mapping.IsRecycled || maker.TryZero(mapping, end, look));
    }

    /// <summary>The error for a segment whose blocks only a lone opener can complete.</summary>
    public QueueDiskException CannotGrow(long offset)
    {
        string file = StoreNames.Segment(window.StartOf(offset));
        return new QueueDiskException($"Cannot allocate more blocks for a segment that is in use: offset={offset}, "
            + $"path={directory.Path}, file={file}. Close every queue on the store, then open it again: opening allocates them.",
            DiskErrors.EOPNOTSUPP, file);
    }

    private static long RoundUp(long offset) => (offset + 4095) & ~4095L;
}

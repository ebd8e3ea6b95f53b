using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Decides whether the page cache still is what the dead processes left. A file system that failed or was cut off, unmounted and
/// mounted again has lost unflushed data in the boot that wrote it, and may have refused every file that would record the loss.
/// But while memory is whole, nothing is beyond the tail:
/// <code>
/// found beyond the tail                          means
/// confirmed, and whole frames below it           damage: the tail's header was flushed, and is zero now
/// confirmed, and the tail's segment is missing   damage
/// confirmed otherwise, the tail hint             memory was lost
/// a cursor, at most where the last segment ends  memory was lost (above that the cursor itself is damaged)
/// a cursor inside a claim, which is no message   memory was lost: a batch that was read there is unpublished again
/// bytes that are not zero                        memory was lost, except for the bytes of a dead Exclusive producer, which lie
///                                                in the tail's segment below what was allocated
/// </code>
/// It cannot notice one kind of loss: the log, up to the tail, and everything that refers to it are an earlier state of the same
/// store. Then no flushed message is missing, and nothing is where the next message goes.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="control">The control page; null when it is not valid.</param>
internal sealed unsafe class PageCacheLossDetector(HeldDirectory directory, StoreMeta meta, ControlPage? control)
{
    /// <summary>What the state of the store says about its tail.</summary>
    /// <param name="tail">The tail that the walk found.</param>
    /// <param name="flushedTo">Everything below it was flushed.</param>
    /// <param name="segments">The existing segments.</param>
    /// <param name="isInClaim">Whether an offset is inside a claim below the tail.</param>
    public TailSearchResult Judge(long tail, long flushedTo, SegmentStarts segments, Predicate<long> isInClaim)
    {
        if (PlantedFaults.Has(PlantedFault.MemoryTakenForWhole))
            return new TailSearchResult(tail, TailFault.None);
        if (flushedTo > tail)
            return new TailSearchResult(tail, IsDamage(tail, flushedTo, segments) ? TailFault.Damage : TailFault.MemoryLoss);
        // P14 acquire: alone; pairs with P14 full in SegmentRoller.
        bool isLost = (control is not null && SharedWord.ReadAcquire(control.TailHint) > tail)
            || IsCursorAstray(tail, segments, isInClaim) || IsAnythingBeyond(tail, segments);
        return new TailSearchResult(tail, isLost ? TailFault.MemoryLoss : TailFault.None);
    }

    /// <summary>Whether cutting the log here would remove good messages that were flushed.</summary>
    private bool IsDamage(long tail, long flushedTo, SegmentStarts segments)
    {
        long start = meta.StartOf(tail);
        if (!segments.Contains(start))
            return true;
        if (FindWholeFrame(start, tail - start, Math.Min(flushedTo - start, meta.SegmentLength)))
            return true;
        foreach (long later in segments.From(start + 1))
        {
            // A frame begins at its first byte.
            if (later < flushedTo && FindWholeFrame(later, 0, FrameHeader.Size))
                return true;
        }

        return false;
    }

    private bool FindWholeFrame(long start, long from, long to) =>
        WholeFrames.IsAnyIn(directory, meta, start, from, to);

    private bool IsCursorAstray(long tail, SegmentStarts segments, Predicate<long> isInClaim)
    {
        // A segment's name is on disk before any producer appends there.
        long end = segments.Count == 0 ? 0 : segments.Max + meta.SegmentLength;
        foreach (string name in CursorFile.Names(directory))
        {
            // One that is damaged, or belongs to another user, tells nothing here: its consumer will report the error.
            if (CursorFile.TryRead(directory, name).Offset is { } offset && IsAstray(offset))
                return true;
        }

        return new GroupRecovery(directory, meta.StoreId, TimeProvider.System).IsAstray(IsAstray);

        bool IsAstray(long offset) => (offset > tail && offset <= end) || isInClaim(offset);
    }

    private bool IsAnythingBeyond(long tail, SegmentStarts segments)
    {
        long start = meta.StartOf(tail);
        foreach (long segment in segments.From(start))
        {
            // Without the control page, dirty bytes may be anywhere in the tail's segment.
            if (segment == start && control is null)
                continue;
            long from = Math.Max(0, tail - segment);
            // P17 acquire: alone; pairs with P17 release in ProducerAdmission.
            if (segment == start && SharedWord.ReadAcquire(control!.ExclusiveAtWork) != 0)
                // P20 acquire: alone; pairs with P20 full in BlockAllocator.
                from = Math.Clamp(SharedWord.ReadAcquire(control.Allocated) - segment, from, meta.SegmentLength);
            if (IsAnythingIn(segment, from, isTail: segment == start))
                return true;
        }

        return false;
    }

    /// <summary>
    /// A recycled segment holds old bytes after what is allocated. Its first part was zeroed before it got its name, whatever
    /// the word says, which may be older than the segment.
    /// </summary>
    private long EndOfZeros(PlatformFile file, long segment, bool isTail)
    {
        if (file.Length <= meta.SegmentLength)
            return meta.SegmentLength;
        long zeroed = Math.Min(SegmentMaker.FirstBlocks, meta.SegmentLength);
        // P20 acquire: alone; pairs with P20 full in BlockAllocator.
        long allocated = isTail && control is not null ? SharedWord.ReadAcquire(control.Allocated) - segment : 0;
        return Math.Clamp(allocated, zeroed, meta.SegmentLength);
    }

    private bool IsAnythingIn(long segment, long from, bool isTail)
    {
        try
        {
            using PlatformFile? file = directory.Open(StoreNames.Segment(segment), FileOpening.Read);
            return file is not null && new SegmentScanner(file, segment, meta.SegmentLength, meta.Checksum)
                .FindNonZeroData(from, EndOfZeros(file, segment, isTail)) >= 0;
        }
        catch (QueueDiskException)
        {
            // The file may be missing, or have a bad sector: a reader that comes there gets the error.
            return false;
        }
    }
}

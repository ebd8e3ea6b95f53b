using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Whether the page cache still is what the dead have left. A file system that failed or was cut off, unmounted and mounted
/// again has lost what was not flushed, in the boot in which it was written, and may have refused every file that would say so.
/// But while memory is whole nothing stands beyond the tail:
/// <code>
/// found beyond the tail                          means
/// confirmed, and whole frames below it           damage: the tail's header was flushed, and is zero now
/// confirmed, and the tail's segment is missing   damage
/// confirmed otherwise, the tail hint             memory was lost
/// a cursor, at most where the last segment ends  memory was lost (above that the cursor itself is damaged)
/// bytes that are not zero                        memory was lost, but for those of a dead Exclusive producer, which lie in the
///                                                tail's segment below what was allocated
/// </code>
/// What it cannot notice: a loss after which the log, up to the tail, and all that refers to it are an earlier state of the same
/// store. Then nothing that was flushed is missing, and nothing stands where the next message goes.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="checksum">Of its frames.</param>
/// <param name="control">Null when it cannot be believed.</param>
internal sealed unsafe class MemoryWitness(
    HeldDirectory directory, StoreMeta meta, FrameChecksum checksum, ControlPage? control)
{
    /// <summary>What the state of the store says about its tail.</summary>
    /// <param name="tail">As the walk found it.</param>
    /// <param name="flushedTo">What lies below it was flushed.</param>
    /// <param name="segments">Those that are there.</param>
    public TailSearchResult Judge(long tail, long flushedTo, SegmentStarts segments)
    {
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.MemoryTakenForWhole))
            return new TailSearchResult(tail, TailFault.None);
#endif
        if (flushedTo > tail)
            return new TailSearchResult(tail, IsDamage(tail, flushedTo, segments) ? TailFault.Damage : TailFault.MemoryLoss);
        // P14 acquire: alone; pairs with P14 full in SegmentRoller.
        bool isLost = (control is not null && SharedWord.ReadAcquire(control.TailHint) > tail)
            || IsCursorBeyond(tail, segments) || IsAnythingBeyond(tail, segments);
        return new TailSearchResult(tail, isLost ? TailFault.MemoryLoss : TailFault.None);
    }

    /// <summary>Whether cutting the log here would take good messages away that were flushed.</summary>
    private bool IsDamage(long tail, long flushedTo, SegmentStarts segments)
    {
        long start = tail - (tail % meta.SegmentLength);
        if (!segments.Contains(start))
            return true;
        if (FindWholeFrame(start, tail - start, Math.Min(flushedTo - start, meta.SegmentLength)))
            return true;
        foreach (long later in segments.From(start + 1))
        {
            // Its first byte is a frame's.
            if (later < flushedTo && FindWholeFrame(later, 0, FrameHeader.Size))
                return true;
        }

        return false;
    }

    /// <summary>Whether a frame whose checksum fits begins in [from, to) of a segment; no other bytes pass for one.</summary>
    private bool FindWholeFrame(long start, long from, long to)
    {
        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null)
            return false;
        var scanner = new SegmentScanner(file, start, meta.SegmentLength, checksum);
        var sums = new RangeChecksum(file, start, from, checksum);
        for (long at = from; (at = scanner.FindNonZeroData(at, to)) >= 0; at += FrameHeader.Size)
        {
            at -= at % FrameHeader.Size;
            if (scanner.TryReadHeader(at, out ulong header)
                && FrameHeader.HasChecksum(FrameHeader.State(header)) && sums.Matches(header, at))
                return true;
        }

        return false;
    }

    private bool IsCursorBeyond(long tail, SegmentStarts segments)
    {
        // A segment's name is on the disk before anybody appends there.
        long end = segments.Count == 0 ? 0 : segments.Max + meta.SegmentLength;
        foreach (string name in CursorFile.Names(directory))
        {
            if (ReadCursor(name) is { } offset && offset > tail && offset <= end)
                return true;
        }

        return false;
    }

    private long? ReadCursor(string name)
    {
        try
        {
            return CursorFile.Read(directory, name);
        }
        catch (QueueDiskException)
        {
            // Another user's, perhaps: its consumer will say so.
            return null;
        }
    }

    private bool IsAnythingBeyond(long tail, SegmentStarts segments)
    {
        long start = tail - (tail % meta.SegmentLength);
        foreach (long segment in segments.From(start))
        {
            // Without the control page there may be dirt everywhere in the tail's segment.
            if (segment == start && control is null)
                continue;
            long from = Math.Max(0, tail - segment);
            // P17 acquire: alone; pairs with P17 release in ProducerAdmission.
            if (segment == start && SharedWord.ReadAcquire(control!.ExclusiveAtWork) != 0)
                // P20 acquire: alone; pairs with P20 full in SegmentMaker.
                from = Math.Clamp(SharedWord.ReadAcquire(control.Allocated) - segment, from, meta.SegmentLength);
            if (IsAnythingIn(segment, from))
                return true;
        }

        return false;
    }

    private bool IsAnythingIn(long segment, long from)
    {
        try
        {
            using PlatformFile? file = directory.Open(StoreNames.Segment(segment), FileOpening.Read);
            return file is not null
                && new SegmentScanner(file, segment, meta.SegmentLength, checksum).FindNonZeroData(from, meta.SegmentLength) >= 0;
        }
        catch (QueueDiskException)
        {
            // No file perhaps, or a bad sector: whoever comes there hears of it.
            return false;
        }
    }
}

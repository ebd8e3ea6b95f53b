using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Removes everything after the tail after a power loss, before the first append. In this order: 1 copy what is not zero into
/// `salvage/`, 2 zero the rest of the tail's segment, 3 move every later segment into `salvage/` (otherwise its old frames come
/// back one day), or delete it when it was only prepared and holds nothing of this log, 4 clamp every cursor to the tail
/// (otherwise new messages are skipped), and clear the index beyond it, 5 sync all of it and the directories. The checkpoint with
/// the new epoch is written after this. After a crash in between, the next opener does the same again, but leaves an existing
/// copy in `salvage/` as it is: the segment may be half zeroed by now.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="epoch">The new epoch: it distinguishes the files of one cut from those of another at the same offset.</param>
internal sealed class LogTruncation(HeldDirectory directory, StoreMeta meta, long epoch)
{
    public void Apply(long tail, SegmentStarts segments)
    {
        long start = meta.StartOf(tail);
        if (segments.Contains(start))
            CutSegment(start, tail - start);
        foreach (long later in segments.From(start + 1))
        {
            if (PlantedFaults.Has(PlantedFault.LaterSegmentsLeft))
                continue;
            SetAside(later, tail);
            segments.Remove(later);
            ProtocolSteps.Reach(ProtocolStep.LaterMoved);
        }

        // The segment before the tail may have been completed, but never synced, in the boot that was cut.
        foreach (long earlier in segments.From(0))
        {
            using PlatformFile file = directory.Open(StoreNames.Segment(earlier), FileOpening.ReadWrite)
                ?? throw LogErrors.Missing(directory.Path, earlier, earlier);
            file.Sync();
        }

        ClampCursors(tail);
        ProducerSettlement.ForgetBeyond(directory, meta, tail);
        ClearIndex(directory, meta, tail);
        ProtocolSteps.Reach(ProtocolStep.CursorsClamped);
        directory.FlushEntriesIfThere(StoreNames.Salvage);
        directory.FlushEntries(StoreNames.CommitLog);
        directory.FlushEntries("");
    }

    /// <summary>Stores zeros over the bytes in [from, to) that are not zero, page by page: clean pages stay clean.</summary>
    public static void ZeroFrom(PlatformFile file, SegmentScanner scanner, long from, long to)
    {
        const int page = 4096;
        byte[] zeros = new byte[page];
        while ((from = scanner.FindNonZeroData(from, to)) >= 0)
        {
            long end = Math.Min(to, (from | (page - 1)) + 1);
            file.WriteAt(zeros.AsSpan(0, (int)(end - from)), from);
            from = end;
            ProtocolSteps.Reach(ProtocolStep.PageZeroed);
        }

        scanner.Invalidate();
    }

    /// <summary>
    /// Clears the index beyond the tail. Entries are written for what is on disk, so there are none, unless the disk has lost
    /// what it confirmed, or files of two moments came together.
    /// </summary>
    public static void ClearIndex(HeldDirectory directory, StoreMeta meta, long tail)
    {
        try
        {
            using IndexFile? file = IndexFile.TryOpen(directory, meta, FileOpening.ReadWrite);
            file?.ClearFrom(tail);
        }
        catch (QueueDiskException)
        {
            // It is only a hint, and without it messages are counted anew.
            WholeFile.TryDelete(directory, StoreNames.Index);
        }
    }

    /// <summary>
    /// Moves a segment into `salvage/`. One that holds nothing is deleted: otherwise each cut would leave some of these for good.
    /// </summary>
    public void SetAside(long start, long tail)
    {
        if (HoldsNothing(start))
            directory.Delete(StoreNames.Segment(start));
        else
            SetAside(start, StoreNames.Cut(start, tail, epoch));
    }

    /// <summary>A segment that cannot be read is never deleted.</summary>
    private bool HoldsNothing(long start)
    {
        try
        {
            using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
            return file is not null && HoldsNothing(file, start, 0);
        }
        catch (QueueDiskException)
        {
            return false;
        }
    }

    /// <summary>
    /// Only zeros, or in a recycled segment only bytes of the segment that the file was before.
    /// </summary>
    private bool HoldsNothing(PlatformFile file, long start, long position) => file.Length > meta.SegmentLength
        ? !WholeFrames.IsAnyIn(directory, meta, start, position, meta.SegmentLength)
        : new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum).FindNonZeroData(position, meta.SegmentLength) < 0;

    private void SetAside(long start, string name)
    {
        directory.CreateSubdirectory(StoreNames.Salvage);
        try
        {
            directory.Rename(StoreNames.Segment(start), name);
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.EXDEV)
        {
            // `commitlog` is a link to another file system.
            using (PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read))
            {
                if (file is not null)
                    CopyAside(file, name, 0);
            }

            directory.Delete(StoreNames.Segment(start));
        }
    }

    private void CutSegment(long start, long position)
    {
        Unshare(start);
        using PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite)!;
        if (file.Length < meta.SegmentLength)
            file.SetLength(meta.SegmentLength);
        var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
        if (scanner.FindNonZeroData(position, meta.SegmentLength) >= 0)
        {
            if (!HoldsNothing(file, start, position))
            {
                directory.CreateSubdirectory(StoreNames.Salvage);
                CopyAside(file, StoreNames.Cut(start, start + position, epoch), position);
            }

            if (!PlantedFaults.Has(PlantedFault.RestNotZeroed))
                ZeroFrom(file, scanner, position, meta.SegmentLength);
        }

        file.Sync();
    }

    /// <summary>
    /// A segment that a snapshot shares ends below the tail of both stores, unless bytes of it were damaged. Then the cut takes
    /// its messages from this store alone: the file stays with the other one as it is. Portable cannot tell.
    /// </summary>
    private void Unshare(long start)
    {
        bool isShared;
        using (PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.Read)!)
            isShared = file.HasOtherNames;
        if (isShared)
            new SegmentRewrite(directory, meta).Apply([start]);
    }

    private void CopyAside(PlatformFile file, string name, long position)
    {
        if (directory.Identify(name) is not null)
            return;
        WholeFile.Replace(directory, name, copy => file.CopyNonZero(copy, position, meta.SegmentLength));
        ProtocolSteps.Reach(ProtocolStep.SalvageCopied);
    }

    private void ClampCursors(long tail)
    {
        Span<byte> word = stackalloc byte[8];
        foreach (string name in CursorFile.Names(directory))
        {
            // A directory or a pipe of such a name is no cursor.
            if (CursorFile.TryRead(directory, name) is { Error: not null, IsUnknown: false })
                continue;
            using PlatformFile? file = directory.Open(name, FileOpening.ReadWrite);
            if (file is null || file.ReadAt(word, 0) < 8)
                continue;
            ulong cursor = BitConverter.ToUInt64(word);
            if (PlantedFaults.Has(PlantedFault.CursorsNotClamped))
                continue;
            // Also one that stays: after a failed sync the system takes its page for clean, and would write nothing.
            if (CursorWord.TryRead(cursor, out long offset))
                file.WriteAt(BitConverter.GetBytes(CursorWord.From(Math.Min(offset, tail))), 0);
            file.Sync();
        }
    }
}

using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Recovers a store for a lone opener, under `open`, before any append: finds the tail from the checkpoint on (never from the
/// hint: producers walk over living claims, so the hint may be above a hole), and rewrites every word of the control page.
/// <code>
/// which recovery
/// the last one left a cut unfinished          after a power loss
/// another boot, an unknown one, poison        after a power loss
/// this boot                                   after deaths; a state that is impossible while memory is whole (below, and beyond
///                                             the tail: PageCacheLossDetector) turns it into one after a power loss
///
/// met on the way             after deaths, flushed      after deaths, not flushed   after a power loss
/// free header                the tail, if no memory was lost (PageCacheLossDetector)   the tail
/// claimed                    damage                     its owner is dead: padding  the tail
/// checksum right             continue                   continue                    continue
/// checksum wrong             continue: readers say so  after a power loss          the tail
/// not plausible              damage                     after a power loss          the tail
/// batch that does not end    damage                     after a power loss          the tail is the batch's first frame
/// file too short             damage                     damage                      the tail
/// beyond `allocated`, in a   as if it were not          after a power loss          as if it were not
/// recycled segment
/// after the tail             dirty bytes of a dead Exclusive producer are zeroed    set aside in salvage/, zeroed; later
///                                                                                   segments moved away, cursors clamped,
///                                                                                   epoch raised
/// </code>
/// Flushed: below the checkpoint, confirmed, or what the last recovery knew. Damage is reported: producers refuse to start,
/// readers read up to it, nothing is cut off. Without a valid control page only the checkpoint is known, and the epoch is raised
/// even so: an end of the log may be lost without a trace. It is raised, too, in a copy of a store (a backup that was restored),
/// where nothing is cut: the other store, or the one that was here before, gives the same offsets to other messages. Where the
/// store may be a copy, its epoch is the time in milliseconds: a backup that is restored twice must not get one twice.
/// If it is killed at any point and run again, it finds the same tail: until the last step it changes only what is at or beyond
/// the tail. From before its first change to after its last, the stage in the control page says that the store is not recovered.
/// </summary>
internal sealed unsafe class StoreRecovery(
    OperatingSystemServices os,
    HeldDirectory directory,
    StoreMeta meta,
    ControlPage control,
    SlotTable slots,
    CheckpointFile checkpoints,
    TimeProvider time)
{

    /// <summary>Recovers. The control page records an impossible frame afterwards.</summary>
    /// <returns>What it found.</returns>
    public OpeningRecovery Run()
    {
        try
        {
            return Recover();
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            // The next opener would find the same pages marked clean, and its own syncs would succeed.
            PoisonFile.Make(directory);
            throw;
        }
    }

    private OpeningRecovery Recover()
    {
        checkpoints.Sync();
        CheckpointRecord? checkpoint = checkpoints.Read();
        long removed = ReadRemoved();
        bool isControlValid = control.IsColdBlockValid(meta.StoreId);
        bool isPoisoned = IsPoisoned();
        Guid recoveredIn = isControlValid ? control.BootId : checkpoint?.BootId ?? Guid.Empty;
        bool isThisBoot = os.Boot.IsSameAs(recoveredIn);
        // Kept as another process wrote it: the page then stays valid throughout.
        Guid boot = isThisBoot ? recoveredIn : os.Boot.Stored;
        SegmentStarts segments = LogStartSearch.List(directory, meta);
        bool wasCutting = control.Stage == RecoveryStage.AfterPowerLoss;
        bool isNew = segments.Count == 0 && checkpoint is { Offset: 0, Sequence: 0 } && !isPoisoned && !HasCursors()
            && !(isControlValid && control.Stage == RecoveryStage.Finished);
        bool isCut = !isNew && (!isThisBoot || isPoisoned || wasCutting);
        BeginStage(isCut, isNew && !isControlValid ? boot : null);

        // When the cold block is not valid, "exclusive at work" counts as set, and the bound as the segment's end.
        // P17 acquire: alone; pairs with P17 release.
        bool mayBeDirty = !isControlValid || SharedWord.ReadAcquire(control.ExclusiveAtWork) != 0;
        long allocatedBefore = isControlValid ? *control.Allocated : long.MaxValue;
        long from = CheckStart(checkpoint, removed, segments);
        long flushedTo = FindFlushedTo(from, isControlValid);
        if (PlantedFaults.Has(PlantedFault.TailHintTrusted) && isControlValid)
            from = Math.Max(from, *control.TailHint);
        int repairedClaims = 0;
        TailSearchResult tail = default;
        if (!isCut)
        {
            var search = new TailSearch(directory, meta);
            // 0: a recovery died when it had cleared the page.
            long allocated = allocatedBefore == 0 ? long.MaxValue : allocatedBefore;
            tail = search.FindAfterDeaths(from, flushedTo, allocated, segments);
            if (tail.Fault == TailFault.None)
                tail = new PageCacheLossDetector(directory, meta, isControlValid ? control : null)
                    .Judge(tail.Offset, flushedTo, segments, search.IsInClaim);
            isCut = tail.Fault == TailFault.MemoryLoss;
            if (!isCut)
                repairedClaims = search.PadClaims();
        }

        // Again for an unfinished cut: the opener that began it may have died before its sync.
        if (tail.Fault == TailFault.MemoryLoss || (wasCutting && isThisBoot && !isPoisoned))
            NoteLoss();
        if (isPoisoned)
            new SegmentRewrite(directory, meta).Apply(segments.From(from - meta.SegmentLength + 1));
        if (isCut)
            tail = new TailSearch(directory, meta).FindAfterPowerLoss(from, segments);
        long epoch = Math.Max(checkpoint?.Epoch ?? 0, isControlValid ? control.Epoch : 0);
        FileOrigin origin = FindMetaOrigin();
        FileOrigin originBefore = control.MetaOrigin;
        bool mayBeCopy = !isControlValid || origin.DiffersFrom(originBefore);
        // Another copy of the same store gets another one.
        long nextEpoch = mayBeCopy ? Math.Max(epoch + 1, time.GetUtcNow().ToUnixTimeMilliseconds()) : epoch + 1;
        bool isStartThere = IsStartThere(removed, tail.Offset, segments);
        if (isCut && tail.CorruptAt < 0)
        {
            epoch = nextEpoch;
            RemoveLeftovers(removed, segments, epoch, isStartThere);
            new LogTruncation(directory, meta, epoch).Apply(tail.Offset, segments);
            checkpoints.WriteBoth(tail.Offset, epoch, boot);
            directory.Delete(StoreNames.Poison);
        }
        else if (mayBeDirty && tail.CorruptAt < 0)
        {
            ZeroDirtyBytes(tail.Offset, allocatedBefore, segments);
        }

        if (tail.CorruptAt < 0)
            RemoveLeftovers(removed, segments, epoch, isStartThere);
        if (isNew && checkpoint!.BootId != boot)
            checkpoints.WriteBoth(checkpoint.Offset, checkpoint.Epoch, boot);
        if (!isNew && mayBeCopy)
            SyncCopy(segments);
        if (!isNew && !isCut && mayBeCopy && checkpoint is not null && tail.CorruptAt < 0)
        {
            // A copy's index, and its producers' files, may be younger than its log.
            LogTruncation.ClearIndex(directory, meta, tail.Offset);
            ProducerSettlement.ForgetBeyond(directory, meta, tail.Offset);
            epoch = nextEpoch;
            checkpoints.WriteBoth(checkpoint.Offset, epoch, boot);
        }

        if (segments.Count == 0)
            segments.Add(MakeFirstSegment(from));
        else
            directory.FlushEntries(StoreNames.CommitLog);
        // Whoever made the store, or its policy, may have died between the rename and its flush.
        directory.FlushEntries("");
        // Nothing is at or after the tail, unless damage ended the search for it.
        new GroupRecovery(directory, meta.StoreId, time)
            .Run(isCut, tail.CorruptAt < 0 ? tail.Offset : long.MaxValue, epoch, CountMessages);
        slots.ResetWornOut();
        long logStart = Math.Max(removed, FindLogStart(tail.Offset, segments, isTrusted: isControlValid && !isCut));
        bool isWholeAgain = tail.CorruptAt < 0;
        var words = new ColdWords(
            isCut && !isWholeAgain ? Guid.Empty : boot, epoch, logStart, isCut && isWholeAgain ? tail.Offset : flushedTo);
        var dirt = new Dirt(mayBeDirty && !isWholeAgain, allocatedBefore);
        long confirmed = isCut && isWholeAgain ? tail.Offset : Math.Max(checkpoint?.Offset ?? 0, logStart);
        Debug.Assert(!isWholeAgain || (logStart <= confirmed && confirmed <= tail.Offset), "Log start <= confirmed <= tail.");
        Rebuild(tail, confirmed, words, dirt, segments);
        control.MetaOrigin = isWholeAgain && origin != default ? origin : originBefore;
        return new OpeningRecovery(isCut && isWholeAgain, repairedClaims);
    }

    /// <summary>
    /// From here on no process may attach if this one dies: the kernel may release the two locks in any order. The page of a
    /// store that is being created is sealed, so that the next opener recognises it.
    /// </summary>
    private void BeginStage(bool isCut, Guid? bootOfNew)
    {
        if (bootOfNew is { } boot)
        {
            control.Clear(keepsColdBlock: false);
            control.BootId = boot;
            control.SealColdBlock(meta.StoreId);
        }

        control.SetStage(isCut ? RecoveryStage.AfterPowerLoss : RecoveryStage.AfterDeaths);
        ProtocolSteps.Reach(ProtocolStep.RecoveryBegun);
    }

    /// <summary>Also on disk: the cut removes the evidence of the loss, and the next opener must continue the cut.</summary>
    private void NoteLoss()
    {
        control.SetStage(RecoveryStage.AfterPowerLoss);
        directory.Sync(StoreNames.Control);
    }

    private FileOrigin FindMetaOrigin()
    {
        using PlatformFile? file = directory.Open(StoreNames.Meta, FileOpening.Read);
        return file is null ? default : FileOrigin.Of(file);
    }

    /// <summary>Whoever made a copy need not have synced it, and what is durable from now on relies on all of it.</summary>
    private void SyncCopy(SegmentStarts segments)
    {
        string[] names =
        [
            StoreNames.Meta, StoreNames.Retention,
            .. segments.From(0).Select(StoreNames.Segment),
            .. CursorFile.ReadAll(directory).Where(static cursor => cursor.Error is null).Select(static cursor => cursor.File),
            .. GroupFile.Names(directory).Select(StoreNames.SavedGroup),
            .. ProducerSettlement.Read(directory, meta).Select(static producer => producer.Name),
        ];
        foreach (string name in names)
            directory.Sync(name);

        foreach (string folder in (string[])[StoreNames.Consumers, StoreNames.Groups, StoreNames.Producers, StoreNames.Offsets])
            directory.FlushEntriesIfThere(folder);
    }

    /// <summary>
    /// Everything below it was flushed. If one of these words is wrong and too high, a loss is merely reported as damage.
    /// </summary>
    private long FindFlushedTo(long checkpoint, bool isControlValid) => isControlValid
        // P18 acquire: alone; pairs with P18 full in FlushEngine.
        ? Math.Max(checkpoint, Math.Max(SharedWord.ReadAcquire(control.Durable), control.FlushedBelow))
        : checkpoint;

    /// <summary>
    /// After a power loss only the contiguous run counts: segments that retention had removed may be back. After deaths the log
    /// start counts, and a segment missing above it hides nothing that is before it. But a removal that died before it recorded
    /// the log start has removed nothing: the segments before it are there, and a consumer may have moved back to them.
    /// </summary>
    private long FindLogStart(long tail, SegmentStarts segments, bool isTrusted)
    {
        // P16 acquire: alone; pairs with P16 full in SegmentTrimmer.
        long logStart = isTrusted ? SharedWord.ReadAcquire(control.LogStart) : long.MaxValue;
        if (logStart <= tail && PlantedFaults.Has(PlantedFault.UnrecordedLogStartKept))
            return logStart;
        return LogStartSearch.OfRun(directory, segments, Math.Min(logStart, tail), meta.SegmentLength);
    }

    /// <summary>
    /// What was removed for good. Synced: this opener relies on the record, whose writer may have died before its sync.
    /// </summary>
    private long ReadRemoved()
    {
        using var file = new CheckpointFile(directory, meta.StoreId, StoreNames.LogStart);
        file.Sync();
        return CheckpointFile.ReadLogStart(directory, meta);
    }

    /// <summary>
    /// Whether the log begins where the record of its start says. In a copy that was made while processes wrote, the record may
    /// be younger than the segments. The tail hint proves nothing here: it is raised at a segment's start.
    /// </summary>
    private bool IsStartThere(long removed, long tail, SegmentStarts segments) => tail > removed
        && segments.Contains(removed) && LogStartSearch.HasFrame(directory, removed, meta.SegmentLength);

    private long? CountMessages(long from, long to) => MessageCounter.Count(directory, meta, from, to);

    /// <summary>
    /// Removes spares, and segments of which a deletion that died, or a power loss, left the names. Where the log's start is not
    /// there they may be all that is left of the log: they are set aside in `salvage/`.
    /// </summary>
    private void RemoveLeftovers(long removed, SegmentStarts segments, long epoch, bool isStartThere)
    {
        if (PlantedFaults.Has(PlantedFault.LeftoversKept))
            return;
        // The removal may have died before it did this.
        if (segments.Count > 0 && segments.Min < removed)
            ProducerSettlement.Settle(directory, meta, removed, removed);
        foreach (long start in segments.From(0))
        {
            if (start >= removed)
                break;
            if (isStartThere)
                directory.Delete(StoreNames.Segment(start));
            else
                new LogTruncation(directory, meta, epoch).SetAside(start, removed);
            segments.Remove(start);
        }

        SpareFiles.RemoveBeyond(0, directory);
    }

    /// <summary>
    /// A store that lost the name of its first segment in a cut looks like a new one, except for its consumers.
    /// </summary>
    private bool HasCursors() => directory.Identify(StoreNames.Cursor("")) is not null
        || ((string[])[StoreNames.Consumers, StoreNames.Groups, StoreNames.Producers])
            .Any(folder => directory.List(folder).Count > 0);

    /// <summary>
    /// The file may be missing: the failed disk refused it, or the process died first. The bit in the control page counts too,
    /// whatever the cold block's checksum says; if the bit is set by mistake, it costs only a verification.
    /// </summary>
    private bool IsPoisoned() => PoisonFile.Exists(directory)
        // P11 acquire: alone, and not cleared yet; pairs with P11 full in WakeSignal.Poison.
        || (SharedWord.ReadAcquire(control.WaiterFlag) & ControlLayout.PoisonBit) != 0;

    /// <summary>
    /// Where the walk begins: at the checkpoint, or at the first segment when there is none, but after what was removed. Never
    /// assumes an empty log.
    /// </summary>
    private long CheckStart(CheckpointRecord? checkpoint, long removed, SegmentStarts segments)
    {
        if (checkpoint is null)
            return segments.Count == 0 ? removed : Math.Max(removed, segments.Min);
        long offset = Math.Max(checkpoint.Offset, removed);
        long start = meta.StartOf(offset);
        // A checkpoint on a segment's edge may be older than the segment that begins there.
        bool isThere = segments.Contains(start)
            || (offset == start && (start == 0 || segments.Contains(start - meta.SegmentLength)));
        if (!isThere)
            throw new QueueCorruptException($"The segment of the checkpoint is missing: checkpoint={offset}, "
                + $"file={StoreNames.Segment(start)}, path={directory.Path}. "
                + "Restore the file, whose messages were flushed, or run `mfq repair`.",
                StoreNames.Segment(start), offset);
        return offset;
    }

    private long MakeFirstSegment(long offset)
    {
        long start = meta.StartOf(offset);
        var window = new SegmentWindow(directory, meta.SegmentLength, writable: true);
        var maker = new SegmentMaker(directory, window, control, allocatesInPlace: !os.IsPortable);
        // The old value belongs to a segment that is gone.
        *control.DirectoryFlushed = 0;
        maker.Make(start, SegmentMaker.FirstBlocks);
        return start;
    }

    /// <summary>
    /// Zeroes the bytes that a dead Exclusive producer left between the tail and the allocated bound, and syncs, even when all
    /// are zero by now: frames of an unpublished batch may be on disk already. A message that ends where such a frame begins
    /// would bring the frame back, if a power loss keeps that message and loses the zeros.
    /// </summary>
    private void ZeroDirtyBytes(long tail, long allocated, SegmentStarts segments)
    {
        long start = meta.StartOf(tail);
        if (!segments.Contains(start))
            return;
        using PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite)!;
        long limit = Math.Min(Math.Min(allocated - start, meta.SegmentLength), file.Length);
        LogTruncation.ZeroFrom(file, new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum), tail - start, limit);
        file.Sync();
    }

    /// <summary>
    /// In a recycled segment what is allocated ends at the tail where memory was lost without a trace, and at the end of the
    /// tail's page from now on. No sync: what a power loss brings back there, the next recovery does not trust.
    /// </summary>
    private void ZeroRestOfPage(PlatformFile file, long start, long position) => LogTruncation.ZeroFrom(
        file, new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum), position,
        Math.Min(meta.SegmentLength, (position | 4095) + 1));

    /// <summary>Rewrites every word; the old values are not merged in.</summary>
    private void Rebuild(TailSearchResult tail, long confirmed, ColdWords cold, Dirt dirt, SegmentStarts segments)
    {
        long segmentStart = meta.StartOf(tail.Offset);
        long allocated = Math.Max(tail.Offset, AllocateTail(tail.Offset, segments, zeroes: tail.CorruptAt < 0));
        bool keepsColdBlock = control.IsColdBlockValid(meta.StoreId)
            && control.BootId == cold.Boot && control.Epoch == cold.Epoch;
        if (keepsColdBlock)
            RebuildColdWords(tail, cold, dirt);
        control.Clear(keepsColdBlock);
        ProtocolSteps.Reach(ProtocolStep.ControlCleared);
        *control.TailHint = tail.Offset;
        *control.Durable = Math.Min(confirmed, tail.Offset);
        *control.Allocated = allocated;
        // A tail on a segment's edge may have no file yet: the process that makes it must flush its name.
        *control.DirectoryFlushed = segmentStart + (segments.Contains(segmentStart) ? 1 : 0);
        // A damaged log is left as it is: the next recovery, after the repair of the damage, must still zero these bytes.
        if (dirt.Remains)
            *control.Allocated = Math.Max(*control.Allocated, Math.Min(dirt.AllocatedBefore, segmentStart + meta.SegmentLength));
        if (!keepsColdBlock)
        {
            control.BootId = cold.Boot;
            control.Epoch = cold.Epoch;
            control.SealColdBlock(meta.StoreId);
            RebuildColdWords(tail, cold, dirt);
        }

        control.SetStage(RecoveryStage.Finished);
    }

    /// <summary>
    /// One by one: an opener that is killed here leaves a valid page, and the next one has no reason for a new epoch.
    /// </summary>
    private void RebuildColdWords(TailSearchResult tail, ColdWords cold, Dirt dirt)
    {
        control.SetColdWord(ControlLayout.FlushedBelowAt, (ulong)cold.FlushedBelow, meta.StoreId);
        control.SetColdWord(ControlLayout.LogStartAt, (ulong)cold.LogStart, meta.StoreId);
        control.SetColdWord(ControlLayout.ExclusiveAtWorkAt, dirt.Remains ? 1u : 0u, meta.StoreId);
        control.SetColdWord(ControlLayout.CorruptAtAt, (ulong)(tail.CorruptAt + 1), meta.StoreId);
    }

    /// <summary>The new content of the cold block.</summary>
    /// <param name="Boot">The current boot; empty when the next opener must do it all again.</param>
    /// <param name="Epoch">The epoch of the offsets that are assigned now.</param>
    /// <param name="LogStart">Offsets below it are gone.</param>
    /// <param name="FlushedBelow">What is known to be on disk.</param>
    private readonly record struct ColdWords(Guid Boot, long Epoch, long LogStart, long FlushedBelow);

    /// <summary>The bytes that a dead Exclusive producer left beyond the tail of a log that cannot be repaired now.</summary>
    /// <param name="Remains">They were not zeroed.</param>
    /// <param name="AllocatedBefore">How far they may reach.</param>
    private readonly record struct Dirt(bool Remains, long AllocatedBefore);

    /// <summary>
    /// Gives the tail's piece its blocks, so that the next producer can at least pad the rest of the segment. Where blocks
    /// cannot be allocated in place, the tail's segment gets all of its blocks now, and the later ones their first: no process
    /// could allocate them once others are attached. Returns the offset up to which there are blocks; a segment's start is left
    /// to the producer that enters it. On a full disk it allocates none: the store can be read, and a producer gets the same
    /// error itself.
    /// </summary>
    private long AllocateTail(long tail, SegmentStarts segments, bool zeroes)
    {
        long start = meta.StartOf(tail);
        try
        {
            long end = 0;
            foreach (long segment in segments.From(start))
            {
                using PlatformFile? file = directory.Open(StoreNames.Segment(segment), FileOpening.ReadWrite);
                if (file is null || file.Length < meta.SegmentLength)
                    return end;
                long page = Math.Max(0, tail - segment) & ~4095L;
                long piece = page & -BlockAllocator.PieceLength;
                long pieceLength = Math.Min(BlockAllocator.PieceLength, meta.SegmentLength - piece);
                bool isAllocated = file.TryAllocate(piece, tail == start ? 4096 : pieceLength);
                if (isAllocated && zeroes && tail != start && file.Length > meta.SegmentLength)
                    ZeroRestOfPage(file, start, tail - start);
                if (isAllocated)
                    return tail == start ? tail : start + page + 4096;
                file.Allocate(0, segment == start ? meta.SegmentLength : Math.Min(meta.SegmentLength, SegmentMaker.FirstBlocks));
                end = segment == start ? start + meta.SegmentLength : end;
            }

            return end;
        }
        catch (QueueDiskException full) when (DiskErrors.IsFull(full.Errno))
        {
            return 0;
        }
    }
}

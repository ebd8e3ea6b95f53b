using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Opening;

/// <summary>What is wrong with the end of a log.</summary>
internal enum TailFault
{
    None,

    /// <summary>Something that was flushed is damaged: reported, never cut off.</summary>
    Damage,

    /// <summary>What cannot be while memory is whole: the disk lost what was not flushed, although nobody restarted.</summary>
    MemoryLoss,
}

/// <summary>What the search found.</summary>
/// <param name="Offset">The tail, or the place of the fault.</param>
/// <param name="Fault">Why the log cannot simply go on there.</param>
internal readonly record struct TailSearchResult(long Offset, TailFault Fault)
{
    /// <summary>The place of a frame that cannot be; -1 when the log is whole.</summary>
    public long CorruptAt => Fault == TailFault.Damage ? Offset : -1;
}

/// <summary>
/// Walks from the checkpoint to the tail, case by case as the table of <see cref="StoreRecovery"/> says. Changes nothing; the
/// dead claims that it met become padding by <see cref="PadClaims"/>, once it is clear that memory is whole.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="checksum">Of its frames.</param>
internal sealed class TailSearch(HeldDirectory directory, StoreMeta meta, FrameChecksum checksum)
{
    private List<(long Offset, ulong Claim)>? _claims;
    private bool _isCut;
    private bool _hasCheckpoint;
    private long _flushedTo;
    private long _uncheckedTo;
    private long _batchStart = -1;

    /// <summary>After deaths: every frame is looked at, its payload too.</summary>
    /// <param name="from">The checkpoint.</param>
    /// <param name="flushedTo">What lies below it was flushed: a bad frame there is damage.</param>
    /// <param name="segments">Those that are there.</param>
    public TailSearchResult FindAfterDeaths(long from, long flushedTo, SegmentStarts segments)
    {
        _flushedTo = flushedTo;
        return Find(from, segments);
    }

    /// <summary>After a cut: what is not whole and valid ends the log.</summary>
    /// <param name="from">The checkpoint, or the first segment.</param>
    /// <param name="hasCheckpoint">Without one nobody knows whether a frame without checksum was flushed: that is damage, not the
    /// tail.</param>
    /// <param name="uncheckedTo">Where a walk as after deaths came in the same boot: messages without checksum count up to there.
    /// They cannot be verified; but what speaks for a loss may be damage elsewhere, and then they are whole.</param>
    /// <param name="segments">Those that are there.</param>
    public TailSearchResult FindAfterCut(long from, bool hasCheckpoint, long uncheckedTo, SegmentStarts segments)
    {
        _isCut = true;
        _hasCheckpoint = hasCheckpoint;
        _uncheckedTo = uncheckedTo;
        return Find(from, segments);
    }

    /// <summary>
    /// Alone under `open` every claim is a dead one's. Eight aligned bytes by one write: a crash leaves claim or padding.
    /// </summary>
    public void PadClaims()
    {
        if (_claims is null)
            return;
        foreach ((long offset, ulong claim) in _claims)
        {
            long start = StartOf(offset);
            using PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite)
                ?? throw LogErrors.Missing(directory.Path, start, offset);
            ulong padding = checksum.PaddingHeader(offset, FrameHeader.FrameLength(FrameHeader.Length(claim)));
#if MFQ_PLANTED
            if (PlantedFaults.Has(PlantedFault.DeadFrameReused))
                padding = 0;
#endif
            file.WriteAt(BitConverter.GetBytes(padding), offset - start);
            ProtocolSteps.Reach(ProtocolStep.HolePadded);
        }
    }

    private TailSearchResult Find(long from, SegmentStarts segments)
    {
        long offset = from;
        while (true)
        {
            long start = StartOf(offset);
            if (!segments.Contains(start))
                return End(offset);
            using PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.Read)
                ?? throw LogErrors.Missing(directory.Path, start, offset);
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, checksum);
            // What lies below the checkpoint was on the disk: a file that ends before it was damaged, not cut off.
            if (offset == from && !scanner.Reaches(offset - start))
                return new TailSearchResult(offset, TailFault.Damage);
            TailSearchResult? found = SearchSegment(scanner, ref offset);
            if (found is not null)
                return found.Value;
        }
    }

    /// <summary>Null when the segment is full: the search goes on in the next one.</summary>
    private TailSearchResult? SearchSegment(SegmentScanner scanner, ref long offset)
    {
        while (offset - scanner.Start < meta.SegmentLength)
        {
            long position = offset - scanner.Start;
            // A segment has its full length, synced, before it has its name.
            if (!scanner.Reaches(position + FrameHeader.Size))
                return _isCut ? End(offset) : new TailSearchResult(offset, TailFault.Damage);
            ulong header = scanner.HeaderAt(position);
            if (header == 0)
                return End(offset);
            TailSearchResult? found = _isCut
                ? JudgeAfterCut(scanner, header, position)
                : JudgeAfterDeaths(scanner, header, position);
            if (found is not null)
                return found;
            NoteBatch(FrameHeader.State(header), offset);
            offset += FrameHeader.FrameLength(FrameHeader.Length(header));
        }

        return null;
    }

    /// <summary>Null for a frame that the log goes on behind.</summary>
    private TailSearchResult? JudgeAfterDeaths(SegmentScanner scanner, ulong header, long position)
    {
        long offset = scanner.Start + position;
        TailFault fault = FaultAt(offset);
        if (!FrameHeader.IsPlausible(header, meta.SegmentLength - position))
            return new TailSearchResult(offset, fault);
        if (FrameHeader.State(header) == FrameState.Claimed)
        {
            // No flush goes past a claim: below what was flushed it is what damage made of another header.
            if (offset < _flushedTo)
                return new TailSearchResult(offset, TailFault.Damage);
            (_claims ??= []).Add((offset, header));
            return null;
        }

        // Where a payload that was flushed is damaged the log goes on behind it, and whoever reads it hears of it.
        return fault == TailFault.Damage || scanner.IsWhole(header, position) ? null : new TailSearchResult(offset, fault);
    }

    private TailSearchResult? JudgeAfterCut(SegmentScanner scanner, ulong header, long position)
    {
        long offset = scanner.Start + position;
        if (!FrameHeader.IsPlausible(header, meta.SegmentLength - position))
            return End(offset);
        FrameState state = FrameHeader.State(header);
        if (offset < _uncheckedTo && FrameHeader.IsMessage(state) && !FrameHeader.HasChecksum(state))
            return null;
        if (!_hasCheckpoint && FrameHeader.IsMessage(state) && !FrameHeader.HasChecksum(state))
            return new TailSearchResult(offset, TailFault.Damage);
        return state == FrameState.Claimed || !FrameHeader.HasChecksum(state) || !scanner.IsWhole(header, position)
            ? End(offset)
            : null;
    }

    /// <summary>
    /// Half a batch is none: after a cut the log ends where the batch began. After deaths there is no half one, because its
    /// first header is written last.
    /// </summary>
    private TailSearchResult End(long offset)
    {
        if (!_isCut)
            return new TailSearchResult(offset, _batchStart < 0 ? TailFault.None : FaultAt(offset));
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.HalfBatchKept))
            return new TailSearchResult(offset, TailFault.None);
#endif
        return new TailSearchResult(_batchStart >= 0 ? _batchStart : offset, TailFault.None);
    }

    private TailFault FaultAt(long offset)
    {
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.MemoryTakenForWhole))
            return TailFault.Damage;
#endif
        return offset < _flushedTo ? TailFault.Damage : TailFault.MemoryLoss;
    }

    private void NoteBatch(FrameState state, long offset)
    {
        if (!FrameHeader.BatchGoesOn(state))
            _batchStart = -1;
        else if (_batchStart < 0)
            _batchStart = offset;
    }

    private long StartOf(long offset) => offset - (offset % meta.SegmentLength);
}

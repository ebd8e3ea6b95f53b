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

    /// <summary>Flushed data is damaged: reported, never cut off.</summary>
    Damage,

    /// <summary>
    /// A state that is impossible while memory is whole: unflushed data was lost without a restart of the machine.
    /// </summary>
    MemoryLoss,
}

/// <summary>The result of the search.</summary>
/// <param name="Offset">The tail, or the place of the fault.</param>
/// <param name="Fault">Why the log cannot simply continue there.</param>
internal readonly record struct TailSearchResult(long Offset, TailFault Fault)
{
    /// <summary>The place of an impossible frame; -1 when the log is whole.</summary>
    public long CorruptAt => Fault == TailFault.Damage ? Offset : -1;
}

/// <summary>
/// Walks from the checkpoint to the tail, case by case as in the table of <see cref="StoreRecovery"/>. It changes nothing; once
/// it is clear that memory is whole, <see cref="PadClaims"/> turns the dead claims on the way into padding.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
internal sealed class TailSearch(HeldDirectory directory, StoreMeta meta)
{
    private List<(long Offset, ulong Claim)>? _claims;
    private bool _isCut;
    private bool _isInRecycled;
    private long _flushedTo;
    private long _allocated;
    private long _batchStart = -1;

    /// <summary>After deaths: checks every frame, including its payload.</summary>
    /// <param name="from">The checkpoint.</param>
    /// <param name="flushedTo">Everything below it was flushed: a bad frame there is damage.</param>
    /// <param name="allocated">In a recycled segment only old bytes are beyond it.</param>
    /// <param name="segments">The existing segments.</param>
    public TailSearchResult FindAfterDeaths(long from, long flushedTo, long allocated, SegmentStarts segments)
    {
        _flushedTo = flushedTo;
        _allocated = allocated;
        return Find(from, segments);
    }

    /// <summary>After a power loss: a frame that is not whole and valid ends the log.</summary>
    /// <param name="from">The checkpoint, or the first segment.</param>
    /// <param name="segments">The existing segments.</param>
    public TailSearchResult FindAfterPowerLoss(long from, SegmentStarts segments)
    {
        _isCut = true;
        return Find(from, segments);
    }

    /// <summary>
    /// Alone under `open`, every claim belongs to a dead owner. One write of eight aligned bytes: a crash leaves claim or
    /// padding.
    /// </summary>
    /// <returns>How many there were.</returns>
    public int PadClaims()
    {
        if (_claims is null)
            return 0;
        foreach ((long offset, ulong claim) in _claims)
        {
            long start = meta.StartOf(offset);
            using PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite)
                ?? throw LogErrors.Missing(directory.Path, start, offset);
            ulong padding = meta.Checksum.PaddingHeader(offset, FrameHeader.FrameLength(FrameHeader.Length(claim)));
            if (PlantedFaults.Has(PlantedFault.DeadFrameReused))
                padding = 0;
            file.WriteAt(BitConverter.GetBytes(padding), offset - start);
            ProtocolSteps.Reach(ProtocolStep.ClaimPadded);
        }

        return _claims.Count;
    }

    /// <summary>Whether an offset is inside one of these claims.</summary>
    public bool IsInClaim(long offset) => _claims?.Exists(found => offset > found.Offset
        && offset < found.Offset + FrameHeader.FrameLength(FrameHeader.Length(found.Claim))) == true;

    private TailSearchResult Find(long from, SegmentStarts segments)
    {
        long offset = from;
        while (true)
        {
            long start = meta.StartOf(offset);
            if (!segments.Contains(start))
                return End(offset);
            using PlatformFile file = directory.Open(StoreNames.Segment(start), FileOpening.Read)
                ?? throw LogErrors.Missing(directory.Path, start, offset);
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
            // Everything below the checkpoint was on disk: a file that ends before it was damaged, not cut off.
            if (offset == from && !scanner.Reaches(offset - start))
                return new TailSearchResult(offset, TailFault.Damage);
            _isInRecycled = file.Length > meta.SegmentLength;
            TailSearchResult? found = SearchSegment(scanner, ref offset);
            if (found is not null)
                return found.Value;
        }
    }

    /// <summary>Null when the segment is full: the search continues in the next one.</summary>
    private TailSearchResult? SearchSegment(SegmentScanner scanner, ref long offset)
    {
        while (offset - scanner.Start < meta.SegmentLength)
        {
            long position = offset - scanner.Start;
            // A segment gets its full length, synced, before its name.
            if (!scanner.Reaches(position + FrameHeader.Size))
                return _isCut ? End(offset) : new TailSearchResult(offset, TailFault.Damage);
            ulong header = scanner.HeaderAt(position);
            if (_isInRecycled && !_isCut && IsBeyondAllocated(header, position, offset))
                return new TailSearchResult(offset, FaultAt(offset));
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

    /// <summary>
    /// Whether the log continues where old bytes are. While memory is whole, a place and the header after it are zeroed before
    /// anything is appended there, so the word that says how far is older than the log: what was appended in between is lost,
    /// and old bytes in its place may look like a claim. At the start of a segment there may be no more than the padding of the
    /// one before.
    /// </summary>
    private bool IsBeyondAllocated(ulong header, long position, long offset) => offset >= _flushedTo
        && (header == 0 ? position > 0 && offset > _allocated : offset >= _allocated);

    /// <summary>Null for a frame after which the log continues.</summary>
    private TailSearchResult? JudgeAfterDeaths(SegmentScanner scanner, ulong header, long position)
    {
        long offset = scanner.Start + position;
        TailFault fault = FaultAt(offset);
        if (!FrameHeader.IsPlausible(header, meta.SegmentLength - position))
            return new TailSearchResult(offset, fault);
        if (FrameHeader.State(header) == FrameState.Claimed)
        {
            // No flush passes a claim: below what was flushed, a claim is another header that was damaged.
            if (offset < _flushedTo)
                return new TailSearchResult(offset, TailFault.Damage);
            (_claims ??= []).Add((offset, header));
            return null;
        }

        // After a damaged payload that was flushed the log continues; a reader of that message gets the error.
        return fault == TailFault.Damage || scanner.IsWhole(header, position) ? null : new TailSearchResult(offset, fault);
    }

    private TailSearchResult? JudgeAfterCut(SegmentScanner scanner, ulong header, long position)
    {
        long offset = scanner.Start + position;
        if (!FrameHeader.IsPlausible(header, meta.SegmentLength - position))
            return End(offset);
        return FrameHeader.State(header) == FrameState.Claimed || !scanner.IsWhole(header, position) ? End(offset) : null;
    }

    /// <summary>
    /// Half a batch does not count: after a power loss the log ends where the batch began. After deaths there is no half batch,
    /// because the first header is written last.
    /// </summary>
    private TailSearchResult End(long offset)
    {
        if (!_isCut)
            return new TailSearchResult(offset, _batchStart < 0 ? TailFault.None : FaultAt(offset));
        if (PlantedFaults.Has(PlantedFault.HalfBatchKept))
            return new TailSearchResult(offset, TailFault.None);
        return new TailSearchResult(_batchStart >= 0 ? _batchStart : offset, TailFault.None);
    }

    private TailFault FaultAt(long offset)
    {
        if (PlantedFaults.Has(PlantedFault.MemoryTakenForWhole))
            return TailFault.Damage;
        return offset < _flushedTo ? TailFault.Damage : TailFault.MemoryLoss;
    }

    private void NoteBatch(FrameState state, long offset)
    {
        if (state != FrameState.PublishedInBatch)
            _batchStart = -1;
        else if (_batchStart < 0)
            _batchStart = offset;
    }
}

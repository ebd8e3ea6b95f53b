using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log;

/// <summary>What the search found.</summary>
/// <param name="Offset">The tail; when the log is damaged, the damaged frame's place.</param>
/// <param name="CorruptAt">The place of a frame that cannot be, after deaths; -1 when the log is whole.</param>
internal readonly record struct TailSearchResult(long Offset, long CorruptAt);

/// <summary>Walks from the checkpoint to the tail, case by case as the table of <see cref="StoreRecovery"/> says.</summary>
/// <param name="directory">The store.</param>
/// <param name="meta">Its geometry.</param>
/// <param name="checksum">Of its frames.</param>
/// <param name="isCut">After a power cut: what is not whole and valid ends the log.</param>
/// <param name="hasCheckpoint">Without one nobody knows whether a frame without checksum was flushed: that is damage, not the
/// tail.</param>
internal sealed class TailSearch(
    StoreDirectory directory, StoreMeta meta, FrameChecksum checksum, bool isCut, bool hasCheckpoint)
{
    private long _batchStart = -1;

    public TailSearchResult Find(long from, SegmentStarts segments)
    {
        long offset = from;
        while (true)
        {
            long start = offset - (offset % meta.SegmentLength);
            if (!segments.Contains(start))
                return End(offset);
            using PlatformFile file = directory.Open(
                StoreNames.Segment(start), isCut ? FileOpening.Read : FileOpening.ReadWrite)
                ?? throw LogErrors.Missing(directory.Path, start, offset);
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, checksum);
            // What lies below the checkpoint was on the disk: a file that ends before it was damaged, not cut off.
            if (offset == from && !scanner.Reaches(offset - start))
                return new TailSearchResult(offset, offset);
            TailSearchResult? found = SearchSegment(file, scanner, ref offset);
            if (found is not null)
                return found.Value;
        }
    }

    /// <summary>Null when the segment is full: the search goes on in the next one.</summary>
    private TailSearchResult? SearchSegment(PlatformFile file, SegmentScanner scanner, ref long offset)
    {
        while (offset - scanner.Start < meta.SegmentLength)
        {
            long position = offset - scanner.Start;
            if (!scanner.Reaches(position + FrameHeader.Size))
                return isCut ? End(offset) : new TailSearchResult(offset, offset);
            ulong header = scanner.HeaderAt(position);
            if (header == 0)
                return End(offset);
            long room = meta.SegmentLength - position;
            if (!FrameHeader.IsPlausible(header, room))
                return isCut ? End(offset) : new TailSearchResult(offset, offset);
            FrameState state = FrameHeader.State(header);
            if (isCut && !hasCheckpoint && FrameHeader.IsMessage(state) && !FrameHeader.HasChecksum(state))
                return new TailSearchResult(offset, offset);
            if (isCut && (state == FrameState.Claimed || !FrameHeader.HasChecksum(state) || !scanner.IsWhole(header, position)))
                return End(offset);
            if (state == FrameState.Claimed)
                Pad(file, scanner, header, position);
            NoteBatch(state, offset);
            offset += FrameHeader.FrameLength(FrameHeader.Length(header));
        }

        return null;
    }

    /// <summary>Half a batch is none: the log ends where the batch began.</summary>
    private TailSearchResult End(long offset)
    {
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.HalfBatchKept))
            return new TailSearchResult(offset, -1);
#endif
        return new TailSearchResult(isCut && _batchStart >= 0 ? _batchStart : offset, -1);
    }

    private void NoteBatch(FrameState state, long offset)
    {
        if (!FrameHeader.BatchGoesOn(state))
            _batchStart = -1;
        else if (_batchStart < 0)
            _batchStart = offset;
    }

    /// <summary>
    /// Alone under `open` every claim is a dead one's. Eight aligned bytes by one write: a crash leaves claim or padding.
    /// </summary>
    private void Pad(PlatformFile file, SegmentScanner scanner, ulong claim, long position)
    {
        ulong padding = checksum.PaddingHeader(scanner.Start + position, FrameHeader.FrameLength(FrameHeader.Length(claim)));
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.DeadFrameReused))
            padding = 0;
#endif
        file.WriteAt(BitConverter.GetBytes(padding), position);
        scanner.Invalidate();
        ProtocolSteps.Reach(ProtocolStep.HolePadded);
    }
}

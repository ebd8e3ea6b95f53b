using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Looks for frames whose checksum fits their place: no other bytes pass for them, also none of another segment.
/// </summary>
internal static class WholeFrames
{
    /// <summary>Whether such a frame begins at an offset.</summary>
    public static bool Begins(HeldDirectory directory, StoreMeta meta, long offset)
    {
        long start = meta.StartOf(offset);
        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null)
            return false;
        var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
        return scanner.TryReadHeader(offset - start, out ulong header)
            && FrameHeader.State(header) != FrameState.Claimed && scanner.IsWhole(header, offset - start);
    }

    /// <summary>Whether such a frame begins in [from, to) of a segment.</summary>
    public static bool IsAnyIn(HeldDirectory directory, StoreMeta meta, long start, long from, long to)
    {
        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null)
            return false;
        var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
        var sums = new RangeChecksum(file, start, from, meta.Checksum);
        for (long at = from; (at = scanner.FindNonZeroData(at, to)) >= 0; at += FrameHeader.Size)
        {
            at -= at % FrameHeader.Size;
            if (scanner.TryReadHeader(at, out ulong header)
                && FrameHeader.State(header) != FrameState.Claimed && sums.Matches(header, at))
                return true;
        }

        return false;
    }
}

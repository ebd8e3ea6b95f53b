using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Finds where a store's log starts: where the control page says so, when it is valid; otherwise at the start of the contiguous
/// run of segments that ends at the checkpoint's segment, but after what is known to be removed.
/// </summary>
internal static unsafe class LogStartSearch
{
    public static long Find(HeldDirectory directory, StoreMeta meta, ControlPage? control)
    {
        if (control is not null && control.IsColdBlockValid(meta.StoreId))
            return SharedWord.ReadAcquire(control.LogStart); // P16 acquire: pairs with P16 full in SegmentTrimmer.
        SegmentStarts segments = List(directory, meta);
        long removed = CheckpointFile.ReadLogStart(directory, meta);
        long checkpoint = new CheckpointFile(directory, meta.StoreId).Read()?.Offset ?? (segments.Count == 0 ? 0 : segments.Min);
        return Math.Max(removed, OfRun(directory, segments, Math.Max(removed, checkpoint), meta.SegmentLength));
    }

    /// <summary>
    /// The start of the contiguous run of segments that contains an offset, or that ends just before it. A segment of zeros is
    /// not part of the log before that offset: it was prepared, or it was removed and a power loss brought it back. A reader that
    /// began there would wait for ever.
    /// </summary>
    public static long OfRun(HeldDirectory directory, SegmentStarts segments, long offset, long segmentLength)
    {
        long start = offset - (offset % segmentLength);
        if (!segments.Contains(start) && segments.Contains(start - segmentLength))
            start -= segmentLength;
        while (segments.Contains(start - segmentLength) && HasFrame(directory, start - segmentLength, segmentLength))
            start -= segmentLength;
        return start;
    }

    /// <summary>The starts of the existing segment files.</summary>
    public static SegmentStarts List(HeldDirectory directory, StoreMeta meta)
    {
        var segments = new SegmentStarts();
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (StoreNames.TryParseSegment(name, out long start) && start % meta.SegmentLength == 0
                && start <= LogLimits.OffsetMax)
                segments.Add(start);
        }

        return segments;
    }

    /// <summary>
    /// A file that is too short for a header was complete once and is damaged. It hides nothing that is before it, and a
    /// reader that comes there gets an error. The same holds for a file whose first header is zero but not all of the rest.
    /// </summary>
    public static bool HasFrame(HeldDirectory directory, long start, long segmentLength)
    {
        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null)
            return false;
        var scanner = new SegmentScanner(file, start, segmentLength, checksum: default);
        return !scanner.Reaches(FrameHeader.Size) || scanner.FindNonZeroData(0, segmentLength) >= 0;
    }
}

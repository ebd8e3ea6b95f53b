using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>
/// The first offset that a store still holds: low water, when the control page can be believed, else the start of the
/// contiguous run of segments that ends at the checkpoint's.
/// </summary>
internal static unsafe class FirstOffset
{
    public static long Find(StoreDirectory directory, StoreMeta meta, ControlPage? control)
    {
        if (control is not null && control.IsColdBlockValid(meta.StoreId))
            return SharedWord.ReadAcquire(control.LowWater); // P16 acquire: pairs with P16 full in LogOrigin.
        var segments = new SortedSet<long>();
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (StoreNames.TryParseSegment(name, out long start) && start % meta.SegmentLength == 0)
                segments.Add(start);
        }

        long checkpoint = new CheckpointFile(directory, meta.StoreId).Read()?.Offset ?? (segments.Count == 0 ? 0 : segments.Min);
        return OfRun(segments, checkpoint, meta.SegmentLength);
    }

    /// <summary>The start of the contiguous run of segments that an offset lies in, or lies just behind.</summary>
    public static long OfRun(IReadOnlySet<long> segments, long offset, long segmentLength)
    {
        long start = offset - (offset % segmentLength);
        if (!segments.Contains(start) && segments.Contains(start - segmentLength))
            start -= segmentLength;
        while (segments.Contains(start - segmentLength))
            start -= segmentLength;
        return start;
    }
}

using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// Finds the offset at which a reader continues after damage, according to its <see cref="CorruptionPolicy"/>. It goes only where
/// the log has certainly been: to an offset below the one that walkers have passed, or to any frame whose checksum matches,
/// provided that no Exclusive producer can have left anything beyond it (an Exclusive batch is written as whole frames before it
/// is published).
/// </summary>
internal sealed class DamageSkipper(LogView log, CorruptionPolicy policy, Action<QueueCorruptException, long, long>? report)
{
    /// <summary>True if a handler is registered for skipped damage.</summary>
    public bool Reports => report is not null;

    /// <summary>Reports that everything between two offsets was stepped over.</summary>
    public void Report(QueueCorruptException error, long offset, long nextOffset) => report?.Invoke(error, offset, nextOffset);

    /// <summary>The offset to continue at; -1 while nothing after the damage is certain.</summary>
    /// <param name="at">The offset of the damage.</param>
    /// <param name="segment">The segment of that offset; null when its file is missing.</param>
    /// <param name="visible">The reader sees nothing from this offset on, published or not.</param>
    public long FindWayOn(long at, SegmentMapping? segment, long visible)
    {
        long next = log.Window.StartOf(at) + log.Window.SegmentLength;
        long passed = Math.Min(log.PassedTo, visible);
        bool isOpenEnded = visible == long.MaxValue && !log.MayHoldUnpublished;
        if (policy == CorruptionPolicy.SkipMessage && segment is not null)
        {
            long limit = isOpenEnded ? next : Math.Min(next, passed);
            var search = new FrameSearch(log, segment, limit, passed);
            long found = search.Find(at);
            if (search.IsBlocked)
                return -1;
            if (found >= 0 && found != next)
                return IsStill(found, at, segment, limit, passed) ? found : -1;
        }

        return next <= passed || (isOpenEnded && IsBegun(next)) ? next : -1;
    }

    /// <summary>
    /// A producer may have claimed an offset after this search saw it free, and may have written a batch's inner frames before
    /// this search read them. A second search sees the claim, because it came before the frames that the first one saw.
    /// </summary>
    private bool IsStill(long found, long at, SegmentMapping segment, long limit, long passed) =>
        new FrameSearch(log, segment, limit, passed).Find(at) == found && (found < passed || !log.MayHoldUnpublished);

    /// <summary>True if the segment begins with a frame: then the log has continued there.</summary>
    private bool IsBegun(long start)
    {
        using SegmentWindow.Use use = log.Window.BeginUse(start);
        return use.Segment is { } segment && new FrameSearch(log, segment, long.MaxValue, passed: -1).IsGood(0);
    }
}

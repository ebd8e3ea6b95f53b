using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// Checks whether an offset from a caller or a cursor is the start of a frame or the tail, and finds the end of the newest
/// message. It walks over the headers. After damage it reads as a reader with the same policy does, if that policy steps over
/// damage.
/// </summary>
internal static unsafe class FrameStarts
{
    public static bool Contains(LogStore store, RetentionThread retention, CorruptionPolicy policy, long offset)
    {
        if (offset > LogLimits.OffsetMax)
            return false;
        try
        {
            if (new FrameWalk(store).IsFrameStart(offset))
                return true;
        }
        catch (QueueCorruptException) when (policy != CorruptionPolicy.Throw)
        {
        }

        return IsReached(store, retention, policy, offset);
    }

    /// <summary>
    /// True if a reader with this policy reaches the offset from the start of its segment or of the one before.
    /// </summary>
    public static bool IsReached(LogView log, RetentionThread? retention, CorruptionPolicy policy, long offset)
    {
        if (policy == CorruptionPolicy.Throw || offset < log.LogStart || offset > LogLimits.OffsetMax)
            return false;
        long start = log.Window.StartOf(offset);
        if (start == offset)
            start -= log.Window.SegmentLength;
        return ReadOn(log, retention, policy, Math.Max(start, log.LogStart), offset) == offset;
    }

    /// <summary>
    /// The start of the damage that a reader with this policy skips across the offset; -1 when there is none. Everything before
    /// the damage is below the offset, so a consumer at the offset has already read it.
    /// </summary>
    public static long FindDamageOver(LogStore store, RetentionThread retention, CorruptionPolicy policy, long offset)
    {
        long found = -1;
        if (policy != CorruptionPolicy.Throw && offset <= LogLimits.OffsetMax)
            ReadOn(store, retention, policy, Math.Max(store.Window.StartOf(offset), store.LogStart), offset,
                (_, from, to) => found = from <= offset && offset < to ? from : found);
        return found;
    }

    /// <summary>The end of the newest message; at a claim, the claim's start.</summary>
    public static long FindEnd(LogStore store, RetentionThread retention, CorruptionPolicy policy, long from)
    {
        try
        {
            var walk = new FrameWalk(store);
            return walk.FindContiguousEnd(from, walk.NowLimit);
        }
        catch (QueueCorruptException) when (policy != CorruptionPolicy.Throw)
        {
            return FindEndAfterDamage(store, retention, policy, from);
        }
    }

    /// <summary>Like <see cref="FindEnd"/>, but reads. It does not chase a fast producer forever.</summary>
    public static long FindEndAfterDamage(LogView log, RetentionThread? retention, CorruptionPolicy policy, long from) =>
        ReadOn(log, retention, policy, from, log.Window.StartOf(log.PassedTo) + log.Window.SegmentLength);

    /// <summary>
    /// Reads from a frame's start to the first message at or above the limit, or as far as it can; returns that offset.
    /// </summary>
    private static long ReadOn(
        LogView log, RetentionThread? retention, CorruptionPolicy policy, long from, long limit,
        Action<QueueCorruptException, long, long>? report = null)
    {
        var reader = new LogReader(log, skipper: new DamageSkipper(log, policy, report), retention: retention);
        reader.MoveTo(from);
        try
        {
            while (reader.Offset < limit && reader.TryRead(out _, out _) == ReadStatus.Message && reader.Offset < limit)
                reader.Advance();
        }
        catch (QueueCorruptException)
        {
            // Nothing after this can be read, and no producer will append there.
        }
        catch (OffsetOutOfRangeException) when (reader.Offset < log.LogStart)
        {
            // Retention has overtaken it: the caller sees that by the offset.
        }
        finally
        {
            reader.PutBack();
            reader.ReleaseSegment();
        }

        return reader.Offset;
    }
}

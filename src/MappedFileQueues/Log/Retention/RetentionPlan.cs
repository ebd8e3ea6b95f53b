using MappedFileQueues.Format;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// What a policy wants removed now, and what holds it back. Reads the store's files and changes nothing.
/// </summary>
/// <param name="Goal">Everything before it would go if no consumer were behind; a segment's start.</param>
/// <param name="Limit">Everything before it may go; at most the goal.</param>
/// <param name="HeldBy">The file of the cursor that holds back the rest; null when none does.</param>
/// <param name="HeldOffset">Its offset; the lowest that it may have when it cannot be read.</param>
/// <param name="Problem">Why it cannot be read; null when it can be.</param>
internal readonly record struct RetentionPlan(
    long Goal, long Limit, string? HeldBy = null, long HeldOffset = 0, string? Problem = null)
{
    /// <summary>What a policy wants.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its geometry.</param>
    /// <param name="policy">The policy.</param>
    /// <param name="logStart">The log start.</param>
    /// <param name="tail">A frame's start that a walker reached: its segment stays.</param>
    /// <param name="now">The time of now.</param>
    public static RetentionPlan Make(
        HeldDirectory directory, StoreMeta meta, RetentionOptions policy, long logStart, long tail, DateTimeOffset now) =>
        To(directory, meta, policy, FindGoal(directory, meta, policy, logStart, tail, now), logStart, tail);

    /// <summary>How much of what is before an offset may go.</summary>
    public static RetentionPlan To(
        HeldDirectory directory, StoreMeta meta, RetentionOptions policy, long before, long logStart, long tail)
    {
        long goal = Math.Max(logStart, meta.StartOf(Math.Min(before, LastStart(directory, meta, tail))));
        var plan = new RetentionPlan(goal, goal);
        if (!policy.KeepUnconsumed || goal <= logStart)
            return plan;
        // A consumer that is further behind keeps nothing.
        long kept = policy.UnconsumedBytesMax is { } most && most < tail ? Math.Max(logStart, tail - most) : logStart;
        foreach (StoredCursor cursor in StoreCursors.ReadAll(directory, meta.StoreId))
        {
            long? held = cursor.IsUnknown ? kept : cursor.Offset;
            // A cursor below the log is that of a consumer that was dropped.
            if (held is { } offset && offset >= kept && offset < goal && (plan.HeldBy is null || offset < plan.HeldOffset))
                plan = new RetentionPlan(goal, meta.StartOf(offset), cursor.File, offset, cursor.Problem);
        }

        return plan;
    }

    private static long FindGoal(
        HeldDirectory directory, StoreMeta meta, RetentionOptions policy, long logStart, long tail, DateTimeOffset now)
    {
        long last = LastStart(directory, meta, tail);
        long goal = logStart;
        if (policy.MaxBytes is { } bytes)
            goal = Math.Max(goal, last - ((Math.Max(1, bytes / meta.SegmentLength) - 1) * meta.SegmentLength));
        if (policy.MaxAge is null && policy.MinFreeBytes is null)
            return goal;
        long free = policy.MinFreeBytes is null ? long.MaxValue : directory.FreeBytes;
        for (long start = logStart; start < last; start += meta.SegmentLength)
        {
            using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
            TimeSpan? age = policy.MaxAge is null ? null : now - file?.LastWritten;
            bool isOld = age > policy.MaxAge;
            bool isShort = free < policy.MinFreeBytes;
            // A time to come is that of a clock that was wrong; the segments after it tell whether this one is old.
            if (!isOld && !isShort && !(age < TimeSpan.Zero) && start >= goal)
                break;
            // A file with another name, which a snapshot shares, gives no room. It goes when one after it does.
            bool givesRoom = isShort && file is { HasOtherNames: false };
            if (givesRoom)
                free += file!.AllocatedLength;
            if (isOld || givesRoom)
                goal = Math.Max(goal, start + meta.SegmentLength);
        }

        return goal;
    }

    /// <summary>The start of the segment that stays in any case: the tail's, if it exists, otherwise the one before.</summary>
    private static long LastStart(HeldDirectory directory, StoreMeta meta, long tail)
    {
        long start = meta.StartOf(tail);
        return start == tail && start > 0 && directory.Identify(StoreNames.Segment(start)) is null
            ? start - meta.SegmentLength
            : start;
    }
}

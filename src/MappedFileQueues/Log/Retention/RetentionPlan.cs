using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// What a policy wants removed now, and what holds it back. Reads the store's files and changes nothing.
/// </summary>
/// <param name="Goal">Everything before it would go if no consumer were behind; a segment's start.</param>
/// <param name="Limit">Everything before it may go; at most the goal.</param>
/// <param name="HeldBy">The file of the cursor that holds back the rest; null when none does.</param>
/// <param name="HeldOffset">Its offset.</param>
internal readonly record struct RetentionPlan(long Goal, long Limit, string? HeldBy, long HeldOffset)
{
    /// <summary>What a policy wants.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its geometry.</param>
    /// <param name="policy">The policy.</param>
    /// <param name="oldest">The oldest offset of the log.</param>
    /// <param name="tail">A frame's start that a walker reached: its segment stays.</param>
    /// <param name="now">The time of now.</param>
    public static RetentionPlan Make(
        HeldDirectory directory, StoreMeta meta, RetentionOptions policy, long oldest, long tail, DateTimeOffset now) =>
        To(directory, meta, policy, FindGoal(directory, meta, policy, oldest, tail, now), oldest, tail);

    /// <summary>How much of what lies before an offset may go.</summary>
    public static RetentionPlan To(
        HeldDirectory directory, StoreMeta meta, RetentionOptions policy, long before, long oldest, long tail)
    {
        long goal = Math.Max(oldest, StartOf(meta, Math.Min(before, LastStart(directory, meta, tail))));
        var plan = new RetentionPlan(goal, goal, null, 0);
        if (!policy.KeepUnconsumed || goal <= oldest)
            return plan;
        foreach (string name in CursorFile.Names(directory))
        {
            // A cursor below the log is that of a consumer that was dropped.
            if (CursorFile.Read(directory, name) is { } offset && offset >= oldest && offset < goal
                && (plan.HeldBy is null || offset < plan.HeldOffset)
                && !(policy.UnconsumedBytesMax is { } most && tail - offset > most))
                plan = new RetentionPlan(goal, StartOf(meta, offset), name, offset);
        }

        return plan;
    }

    private static long FindGoal(
        HeldDirectory directory, StoreMeta meta, RetentionOptions policy, long oldest, long tail, DateTimeOffset now)
    {
        long last = LastStart(directory, meta, tail);
        long goal = oldest;
        if (policy.MaxBytes is { } bytes)
            goal = Math.Max(goal, last - ((Math.Max(1, bytes / meta.SegmentLength) - 1) * meta.SegmentLength));
        if (policy.MaxAge is null && policy.MinFreeBytes is null)
            return goal;
        long free = policy.MinFreeBytes is null ? long.MaxValue : directory.FreeBytes;
        for (long start = oldest; start < last; start += meta.SegmentLength)
        {
            using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
            bool isOld = file is not null && policy.MaxAge is { } age && now - file.LastWritten > age;
            bool isInTheWay = free < policy.MinFreeBytes;
            if (!isOld && !isInTheWay && start >= goal)
                break;
            free = isInTheWay ? free + (file?.AllocatedLength ?? 0) : free;
            goal = Math.Max(goal, start + meta.SegmentLength);
        }

        return goal;
    }

    /// <summary>The start of the segment that stays in any case: the tail's, if it exists, otherwise the one before.</summary>
    private static long LastStart(HeldDirectory directory, StoreMeta meta, long tail)
    {
        long start = StartOf(meta, tail);
        return start == tail && start > 0 && directory.Identify(StoreNames.Segment(start)) is null
            ? start - meta.SegmentLength
            : start;
    }

    private static long StartOf(StoreMeta meta, long offset) => offset - (offset % meta.SegmentLength);
}

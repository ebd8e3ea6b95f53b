using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Inspection;

/// <summary>
/// A cheap look at whether the files still hold the log that the shared words speak of: each segment is there and long enough,
/// the oldest and the newest begin with a frame, and the walk from the checkpoint comes as far as others have come. `mfq verify`
/// reads the rest.
/// </summary>
internal static unsafe class LogFilesLook
{
    private const string Remedy = "`mfq verify` shows what is damaged; `mfq repair` makes the store usable.";

    /// <summary>
    /// Everything before it was published: the checkpoint, and in the boot of the last recovery what others have reached.
    /// </summary>
    public static long PassedTo(HeldDirectory directory, StoreMeta meta, ControlPage? control)
    {
        long checkpoint = new CheckpointFile(directory, meta.StoreId).Read()?.Offset ?? 0;
        if (!IsRecovered(meta, control))
            return checkpoint;
        // P14 acquire: a walker reached it; pairs with P14 full in SegmentRoller.
        long hint = SharedWord.ReadAcquire(control!.TailHint);
        return Math.Max(Math.Max(checkpoint, Confirmed(control)), IsPlausible(hint, control) ? hint : 0);
    }

    /// <summary>
    /// What a flush of this boot has confirmed; 0 when the word cannot be right. It has no checksum, and a reader that believed
    /// one flipped bit would look for messages in terabytes that never were.
    /// </summary>
    public static long Confirmed(ControlPage control)
    {
        // P18 acquire: pairs with P18 full in FlushEngine.
        long confirmed = SharedWord.ReadAcquire(control.Durable);
        return IsPlausible(confirmed, control) ? confirmed : 0;
    }

    /// <summary>There are blocks for every message.</summary>
    // P20 acquire: after the offset, which it is raised before; pairs with P20 full in BlockAllocator.
    private static bool IsPlausible(long offset, ControlPage control) => offset <= SharedWord.ReadAcquire(control.Allocated);

    /// <summary>Whether the control page belongs to this boot, so that memory is whole.</summary>
    public static bool IsRecovered(StoreMeta meta, ControlPage? control) =>
        control is not null && control.IsRecovered(meta.StoreId) && IsThisBoot(control.BootId);

    /// <summary>Where nothing tells the boots apart, the stored identity is empty.</summary>
    public static bool IsThisBoot(Guid stored) =>
        stored == CurrentPlatform.Services.Boot.Stored || CurrentPlatform.Services.Boot.IsSameAs(stored);

    /// <summary>What is wrong, in sentences.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its geometry.</param>
    /// <param name="control">The control page; null without one.</param>
    /// <param name="segments">The segments that there are, listed after the next two.</param>
    /// <param name="logStart">The log start.</param>
    /// <param name="passed">What was published before the walk.</param>
    /// <param name="tail">Where the walk ended.</param>
    public static List<string> Look(
        HeldDirectory directory, StoreMeta meta, ControlPage? control, SegmentStarts segments, long logStart, long passed,
        long tail)
    {
        List<string> problems = [];
        if (control is not null && !control.IsColdBlockValid(meta.StoreId) && IsInUse(directory)
            && !control.IsColdBlockValid(meta.StoreId))
            problems.Add($"The page that all programs share is damaged while they use it: file={StoreNames.Control}. End all "
                + "programs on the store; the first one that opens it then makes the page anew.");
        if (control is not null && IsRecovered(meta, control) && control.CorruptAt is >= 0 and var at)
            problems.Add($"Producers are refused because of damage: offset={at}. {Remedy}");
        int count = problems.Count;
        LookAtSegments(directory, meta, segments, logStart, passed, problems);
        if (problems.Count == count && tail < passed)
            problems.Add($"The log ends too early, or is damaged there: offset={tail}, reached before={passed}. {Remedy}");
        return problems;
    }

    private static void LookAtSegments(
        HeldDirectory directory, StoreMeta meta, SegmentStarts segments, long logStart, long passed, List<string> problems)
    {
        long expected = meta.StartOf(logStart);
        foreach (long start in (long[])[.. segments.From(expected), long.MaxValue])
        {
            long end = Math.Min(start, passed) - 1;
            if (expected <= end)
                problems.Add($"Segment files are missing: from={StoreNames.Segment(expected)}, "
                    + $"to={StoreNames.Segment(meta.StartOf(end))}. {Remedy}");
            if (start >= passed)
                return;
            expected = start + meta.SegmentLength;
            if (FaultOf(directory, meta, start, isEdge: start <= logStart || expected >= passed) is { } fault)
                problems.Add(fault);
        }
    }

    private static string? FaultOf(HeldDirectory directory, StoreMeta meta, long start, bool isEdge)
    {
        string name = StoreNames.Segment(start);
        try
        {
            using PlatformFile? file = directory.Open(name, FileOpening.Read);
            if (file?.Length < meta.SegmentLength)
                return $"A segment file is too short: file={name}, length={file.Length}, expected={meta.SegmentLength}. "
                    + Remedy;
            return file is not null && isEdge
                && !new SegmentScanner(file, start, meta.SegmentLength, checksum: default).TryReadHeader(0, out _)
                    ? $"A segment does not begin with a message: file={name}. {Remedy}"
                    : null;
        }
        catch (QueueDiskException error)
        {
            return error.Message;
        }
    }

    /// <summary>Whether the store is open, and nobody is opening it: an opener that is alone rewrites the page.</summary>
    private static bool IsInUse(HeldDirectory directory)
    {
        using PlatformLock? opening = directory.Probe(StoreNames.OpenLock);
        if (opening is null)
            return false;
        using PlatformLock? attached = directory.Probe(StoreNames.AttachedLock, LockKind.Exclusive);
        return attached is null;
    }
}

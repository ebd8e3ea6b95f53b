using System.Diagnostics;

namespace MappedFileQueues.Tool.Top;

/// <summary>
/// Takes pictures of every store below a folder. It reads files and shared counters and takes no lock, so it works while the
/// programs on a store hang.
/// </summary>
internal sealed class StoreFolder(string root)
{
    private Dictionary<string, (long Taken, MappedFileQueueInfo Info)> _before = new(StringComparer.Ordinal);

    /// <summary>Looks at each store; the worst come first.</summary>
    public IReadOnlyList<StorePicture> Take()
    {
        Dictionary<string, (long Taken, MappedFileQueueInfo Info)> now = new(StringComparer.Ordinal);
        List<StorePicture> pictures = [];
        foreach ((string path, string? problem) in StoreSearch.Below(root))
        {
            string name = Path.GetRelativePath(root, path) is var relative && relative == "." ? Path.GetFileName(path) : relative;
            if (problem is not null)
            {
                pictures.Add(StorePicture.Unknown(name, $"The folder cannot be looked into: {problem}"));
                continue;
            }

            try
            {
                MappedFileQueueInfo info = StoreInspector.Inspect(path);
                now[path] = (Stopwatch.GetTimestamp(), info);
                pictures.Add(Picture(name, path, now[path]));
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                pictures.Add(StorePicture.Unknown(name, OperatorWords.Of(error.Message)));
            }
        }

        _before = now;
        return [.. pictures.OrderBy(one => one.Status.Rank()).ThenBy(one => one.Store, StringComparer.Ordinal)];
    }

    private StorePicture Picture(string name, string path, (long Taken, MappedFileQueueInfo Info) now)
    {
        IReadOnlyList<LogFollower> followers = LogFollower.Of(now.Info);
        LogFollower? last = followers.MaxBy(one => one.Lag);
        double? grown = null;
        double? consumed = null;
        MappedFileQueueInfo? before = null;
        if (_before.TryGetValue(path, out (long Taken, MappedFileQueueInfo Info) old) && old.Info.StoreId == now.Info.StoreId)
        {
            double seconds = Stopwatch.GetElapsedTime(old.Taken, now.Taken).TotalSeconds;
            before = old.Info;
            grown = Math.Max(0, now.Info.PublishedOffset - before.PublishedOffset) / seconds;
            if (LogFollower.Of(before).FirstOrDefault(one => one.Name == last?.Name) is { } same)
                consumed = Math.Max(0, last!.Offset - same.Offset) / seconds;
        }

        (CheckStatus status, string state) = StateOf(now.Info, before);
        return new StorePicture(
            name, status, now.Info.PublishedOffset, grown, consumed, last?.Lag ?? 0, last?.Name,
            followers.Max(one => one.LagTime)?.TotalSeconds, Math.Max(0, now.Info.TailOffset - now.Info.ConfirmedOffset),
            now.Info.BytesOnDisk, now.Info.ProducerProcesses, now.Info.AttachedProcesses, state);
    }

    /// <summary>A claim counts when it was in the picture before, too: a working producer has another one each time.</summary>
    private static (CheckStatus Status, string State) StateOf(MappedFileQueueInfo now, MappedFileQueueInfo? before)
    {
        if (now.IsPoisoned)
            return (CheckStatus.Critical, "POISONED: a flush failed");
        if (now.FileProblems is [var damage, ..])
            return (CheckStatus.Critical, $"DAMAGED: {OneLine(damage)}");
        if (now.FlushFailingSince is { } since)
            return (CheckStatus.Critical, $"FLUSHES FAIL since {since:HH:mm:ss}, pid {now.FlushFailingProcessId}");
        MappedFileClaimInfo? claim = now.OpenClaims.FirstOrDefault(
            one => before?.OpenClaims.Any(other => other.Offset == one.Offset && other.Slot == one.Slot) == true);
        if (claim is not null)
            return (CheckStatus.Critical, $"BLOCKED by slot {claim.Slot}, pid {claim.ProcessId}, at {claim.Offset}");
        // As `mfq check` has it: one that cannot be read is a warning.
        if (now.CursorProblems is [var problem, ..])
        {
            return (now.HasDamagedCursor ? CheckStatus.Critical : CheckStatus.Warning,
                $"CONSUMER UNKNOWN: {OneLine(OperatorWords.Of(problem))}");
        }

        return now.RetentionFailingSince is { } failing
            ? (CheckStatus.Warning, $"RETENTION FAILS since {failing:HH:mm:ss}, pid {now.RetentionFailingProcessId}")
            : (CheckStatus.Ok, "ok");
    }

    private static string OneLine(string text) => text.ReplaceLineEndings(" ");
}

/// <summary>One store at one moment.</summary>
internal sealed record StorePicture(
    string Store, CheckStatus Status, long Offset, double? BytesPerSecond, double? ConsumedPerSecond, long Lag, string? Consumer,
    double? AgeSeconds, long Unflushed, long BytesOnDisk, IReadOnlyList<int> Producers, IReadOnlyList<int> Attached, string State)
{
    /// <summary>A store, or a folder, that nobody can look at.</summary>
    public static StorePicture Unknown(string store, string why) =>
        new(store, CheckStatus.Unknown, 0, null, null, 0, null, null, 0, 0, [], [], why.ReplaceLineEndings(" "));
}

/// <summary>A picture of all stores, the worst first.</summary>
internal sealed record TopPicture(IReadOnlyList<StorePicture> Stores);

using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Top;

/// <summary>
/// Takes pictures of every store below a folder. It reads files and shared counters and takes no lock, so it works while the
/// programs on a store hang.
/// </summary>
internal sealed class StoreFolder(string root)
{
    /// <summary>How deep stores are looked for.</summary>
    private const int DepthMax = 6;

    private Dictionary<string, (long Taken, MappedFileQueueInfo Info)> _before = new(StringComparer.Ordinal);

    /// <summary>Looks at each store.</summary>
    public IReadOnlyList<StorePicture> Take()
    {
        Dictionary<string, (long Taken, MappedFileQueueInfo Info)> now = new(StringComparer.Ordinal);
        List<StorePicture> pictures = [];
        foreach (string path in FindStores(root, 0))
        {
            string name = Path.GetRelativePath(root, path) is var relative && relative == "." ? Path.GetFileName(path) : relative;
            try
            {
                MappedFileQueueInfo info = StoreInspector.Inspect(path);
                now[path] = (Stopwatch.GetTimestamp(), info);
                pictures.Add(Picture(name, path, now[path]));
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                string state = OperatorWords.Of(error.Message).ReplaceLineEndings(" ");
                pictures.Add(new StorePicture(name, 0, null, null, 0, null, 0, 0, [], [], state));
            }
        }

        _before = now;
        return pictures;
    }

    private StorePicture Picture(string name, string path, (long Taken, MappedFileQueueInfo Info) now)
    {
        MappedFileConsumerInfo? last = now.Info.Consumers.MaxBy(consumer => consumer.Lag);
        double? grown = null;
        double? consumed = null;
        MappedFileQueueInfo? before = null;
        if (_before.TryGetValue(path, out (long Taken, MappedFileQueueInfo Info) old) && old.Info.StoreId == now.Info.StoreId)
        {
            double seconds = Stopwatch.GetElapsedTime(old.Taken, now.Taken).TotalSeconds;
            before = old.Info;
            grown = Math.Max(0, now.Info.PublishedOffset - before.PublishedOffset) / seconds;
            if (before.Consumers.FirstOrDefault(consumer => consumer.Name == last?.Name) is { } same)
                consumed = Math.Max(0, last!.Offset - same.Offset) / seconds;
        }

        return new StorePicture(
            name,
            now.Info.PublishedOffset,
            grown,
            consumed,
            last?.Lag ?? 0,
            last?.Name,
            Math.Max(0, now.Info.TailOffset - now.Info.ConfirmedOffset),
            now.Info.BytesOnDisk,
            now.Info.ProducerProcesses,
            now.Info.AttachedProcesses,
            StateOf(now.Info, before));
    }

    /// <summary>A claim counts when it stood in the picture before, too: a working producer has another one each time.</summary>
    private static string StateOf(MappedFileQueueInfo now, MappedFileQueueInfo? before)
    {
        if (now.IsPoisoned)
            return "POISONED: a flush failed";
        if (now.FileProblems is [var damage, ..])
            return $"DAMAGED: {damage}";
        if (now.FlushFailingSince is { } since)
        {
            return string.Create(
                CultureInfo.InvariantCulture, $"FLUSHES FAIL since {since:HH:mm:ss}, pid {now.FlushFailingProcessId}");
        }

        MappedFileClaimInfo? claim = now.OpenClaims.FirstOrDefault(
            one => before?.OpenClaims.Any(other => other.Offset == one.Offset && other.Slot == one.Slot) == true);
        if (claim is not null)
            return $"BLOCKED by slot {claim.Slot}, pid {claim.ProcessId}, at {claim.Offset}";
        if (now.CursorProblems is [var problem, ..])
            return $"CONSUMER UNKNOWN: {OperatorWords.Of(problem)}";
        return now.RetentionFailingSince is { } failing
            ? string.Create(
                CultureInfo.InvariantCulture, $"RETENTION FAILS since {failing:HH:mm:ss}, pid {now.RetentionFailingProcessId}")
            : "ok";
    }

    private static IEnumerable<string> FindStores(string folder, int depth)
    {
        if (File.Exists(Path.Combine(folder, StoreNames.Meta)))
            return [Path.GetFullPath(folder)];
        if (depth == DepthMax)
            return [];
        try
        {
            return
            [
                .. Directory.GetDirectories(folder).Order(StringComparer.Ordinal)
                    .Where(inner => new DirectoryInfo(inner).LinkTarget is null)
                    .SelectMany(inner => FindStores(inner, depth + 1)),
            ];
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException && depth > 0)
        {
            // It went away, or nobody but its owner may look into it.
            return [];
        }
    }
}

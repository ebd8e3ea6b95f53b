namespace MappedFileQueues.Tool.Check;

/// <summary>`mfq check`: one line and an exit code for a monitoring system.</summary>
internal static class CheckCommand
{
    public const string Name = "check";

    private static readonly TimeSpan s_claimMaxDefault = TimeSpan.FromSeconds(1);

    public static Command Create()
    {
        Argument<string[]> stores = ToolOptions.PathArguments(
            "STORE", "The store's directory, which may be in use; or a folder whose stores are all checked, but no links. "
                + "May be repeated.");
        Option<string[]> consumer = ConsumerName.FollowersOption(
            "--consumer",
            "A consumer that must exist, or group/NAME; only these count. Without it, all that there are. May be repeated; "
                + $"{ConsumerName.Help}.");
        Option<long?> maxLag = ToolOptions.Size("--max-lag", "More bytes unread are critical.", 0);
        Option<long?> warnLag = ToolOptions.Size("--warn-lag", "More bytes unread are a warning.", 0);
        Option<TimeSpan?> maxAge = ToolOptions.Duration(
            "--max-age",
            "A message that has waited longer for a consumer is critical. Flushes note the time, so the alarm is late by a tenth "
                + "of the age and two seconds at most; without flushes, by as much as a segment takes to fill.");
        maxAge.Aliases.Add("--max-lag-time");
        Option<TimeSpan?> warnAge = ToolOptions.Duration("--warn-age", "As --max-age, as a warning.");
        Option<long?> maxUnflushed = ToolOptions.Size(
            "--max-unflushed", "More appended bytes that are not on disk are critical.", 0);
        Option<long?> minFree = ToolOptions.Size("--min-free", "Less free room on the disk is critical.", 1);
        Option<long?> maxLetters = ToolOptions.Number(
            "--max-letters", "STORE holds dead letters: more that nobody has settled are critical.", 0, long.MaxValue);
        Option<TimeSpan?> maxClaim = ToolOptions.Wait(
            "--max-claim", "A claim that stands in the readers' way for longer is critical; default 1s.");
        return new Command(
            Name,
            "One line and an exit code for monitoring: `mfq check orders --max-lag 64MiB --max-age 5m`. Of several stores the "
                + "first line tells all, a line for each follows, and the worst decides. It only reads, and works while the "
                + "programs hang. A failed flush, damage that keeps producers out, and a claim that blocks are always "
                + "critical. Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also wrong usage).")
        {
            stores, consumer, maxLag, warnLag, maxAge, warnAge, maxUnflushed, minFree, maxLetters, maxClaim,
        }.Does(parsed =>
        {
            CheckLimits limits = new(
                parsed.GetValue(consumer) ?? [], parsed.GetValue(warnLag), parsed.GetValue(maxLag),
                Finite(parsed.GetValue(warnAge)), Finite(parsed.GetValue(maxAge)), parsed.GetValue(maxUnflushed),
                parsed.GetValue(minFree), parsed.GetValue(maxLetters), parsed.GetValue(maxClaim) ?? s_claimMaxDefault);
            CheckResults results = new(
            [
                .. parsed.GetRequiredValue(stores).SelectMany(path => CheckBelow(path, limits))
                    .DistinctBy(result => result.StorePath).OrderBy(result => result.Status.Rank()),
            ]);
            return Result.Write(parsed, results, ToolJson.Lines.CheckResults, CheckText.Write, (int)results.Status);
        });
    }

    /// <summary>A store, or all below a folder: one that has none is no store, and what that means nobody knows.</summary>
    private static IEnumerable<CheckResult> CheckBelow(string path, CheckLimits limits)
    {
        FoundStore[] found = Directory.Exists(path) ? [.. StoreSearch.Below(path)] : [];
        return found.Length == 0 ? [Check(path, limits)] : found.Select(store => store.Problem is { } problem
            ? Unknown(store.Path, $"The folder cannot be looked into: {problem}")
            : Check(store.Path, limits));
    }

    private static CheckResult Check(string path, CheckLimits limits)
    {
        try
        {
            return StoreCheck.Run(path, limits);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or ToolException)
        {
            return Unknown(path, OperatorWords.Of(error.Message));
        }
    }

    private static CheckResult Unknown(string path, string why) => new(
        FullOrGiven(path), [new CheckProblem(CheckStatus.Unknown, why.ReplaceLineEndings(" "))], 0, null, 0, 0, -1);

    /// <summary>In a folder that is gone a relative path leads nowhere, which is what the line has to say.</summary>
    private static string FullOrGiven(string path)
    {
        try
        {
            return SystemPath.Full(path);
        }
        catch (QueueDiskException)
        {
            return path;
        }
    }

    /// <summary>No limit is the same as an infinite one.</summary>
    private static TimeSpan? Finite(TimeSpan? time) => time == Timeout.InfiniteTimeSpan ? null : time;
}

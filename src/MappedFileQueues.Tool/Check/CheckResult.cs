using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Check;

/// <summary>The words and exit codes of monitoring plug-ins.</summary>
[JsonConverter(typeof(JsonStringEnumConverter<CheckStatus>))]
internal enum CheckStatus
{
    Ok = 0,
    Warning = 1,
    Critical = 2,

    /// <summary>The store cannot be looked at.</summary>
    Unknown = 3,
}

/// <summary>Which of two is worse.</summary>
internal static class CheckStatusOrder
{
    /// <summary>The lower, the worse: known trouble first, then what nobody can look at.</summary>
    public static int Rank(this CheckStatus status) => Array.IndexOf(
        [CheckStatus.Critical, CheckStatus.Unknown, CheckStatus.Warning, CheckStatus.Ok], status);

    /// <summary>The worst of several; OK of none.</summary>
    public static CheckStatus Worst(this IEnumerable<CheckStatus> all) => all.DefaultIfEmpty(CheckStatus.Ok).MinBy(Rank);

    /// <summary>As monitoring systems and people read it.</summary>
    public static string Word(this CheckStatus status) => status.ToString().ToUpperInvariant();
}

/// <summary>What the options hold a store against. Null: no limit; no consumers: all that there are.</summary>
internal sealed record CheckLimits(
    IReadOnlyList<string> Consumers, long? LagWarning, long? LagMax, TimeSpan? AgeWarning, TimeSpan? AgeMax, long? UnflushedMax,
    long? FreeMin, long? LettersMax, TimeSpan ClaimMax);

/// <summary>What is wrong.</summary>
internal sealed record CheckProblem(CheckStatus Status, string Text);

/// <summary>The result of `mfq check` for a store.</summary>
internal sealed record CheckResult(
    string StorePath, IReadOnlyList<CheckProblem> Problems, long Lag, string? LaggingConsumer, double AgeSeconds,
    long Unflushed, long FreeBytes, long? Letters = null)
{
    /// <summary>The worst of the problems.</summary>
    public CheckStatus Status => Problems.Select(problem => problem.Status).Worst();
}

/// <summary>The results of all stores that were checked, the worst first.</summary>
internal sealed record CheckResults(IReadOnlyList<CheckResult> Stores)
{
    /// <summary>The worst of them.</summary>
    public CheckStatus Status => Stores.Select(store => store.Status).Worst();
}

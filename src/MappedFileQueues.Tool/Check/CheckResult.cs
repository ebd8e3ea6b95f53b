using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Check;

/// <summary>The words and exit codes of monitoring plug-ins.</summary>
[JsonConverter(typeof(JsonStringEnumConverter<CheckStatus>))]
internal enum CheckStatus
{
    /// <summary>All is well.</summary>
    Ok = 0,

    /// <summary>A limit of a warning is passed.</summary>
    Warning = 1,

    /// <summary>A limit is passed, or the store does not work as it should.</summary>
    Critical = 2,

    /// <summary>The store cannot be looked at.</summary>
    Unknown = 3,
}

/// <summary>Which of two is worse.</summary>
internal static class CheckStatusOrder
{
    /// <summary>The lower, the worse: known trouble first, then what nobody can look at.</summary>
    public static int Rank(this CheckStatus status) => status switch
    {
        CheckStatus.Critical => 0,
        CheckStatus.Unknown => 1,
        CheckStatus.Warning => 2,
        _ => 3,
    };

    /// <summary>The worst of several; OK of none.</summary>
    public static CheckStatus Worst(this IEnumerable<CheckStatus> all) => all.DefaultIfEmpty(CheckStatus.Ok).MinBy(Rank);

    /// <summary>As monitoring systems and people read it.</summary>
    public static string Word(this CheckStatus status) => status.ToString().ToUpperInvariant();
}

/// <summary>What is wrong.</summary>
/// <param name="Status">How bad.</param>
/// <param name="Text">What, with the values.</param>
internal sealed record CheckProblem(CheckStatus Status, string Text);

/// <summary>The result of `mfq check`.</summary>
/// <param name="StorePath">The store's directory.</param>
/// <param name="Problems">What is wrong.</param>
/// <param name="Lag">Bytes that the consumer which is furthest behind has to read.</param>
/// <param name="LaggingConsumer">That consumer; null when there is none.</param>
/// <param name="AgeSeconds">For how long, at least, a message has waited for a consumer.</param>
/// <param name="Unflushed">Appended bytes that are not on disk, also after a claim.</param>
/// <param name="FreeBytes">Free bytes of the disk; -1 when unknown.</param>
/// <param name="Letters">Dead letters that nobody has settled; null when they were not counted.</param>
internal sealed record CheckResult(
    string StorePath,
    IReadOnlyList<CheckProblem> Problems,
    long Lag,
    string? LaggingConsumer,
    double AgeSeconds,
    long Unflushed,
    long FreeBytes,
    long? Letters = null)
{
    /// <summary>The worst of the problems.</summary>
    public CheckStatus Status => Problems.Select(problem => problem.Status).Worst();
}

/// <summary>The results of all stores that were checked.</summary>
/// <param name="Stores">The stores, the worst first.</param>
internal sealed record CheckResults(IReadOnlyList<CheckResult> Stores)
{
    /// <summary>The worst of them.</summary>
    public CheckStatus Status => Stores.Select(store => store.Status).Worst();
}

/// <summary>The JSON of `mfq check`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(CheckResults))]
internal sealed partial class CheckJsonContext : JsonSerializerContext;

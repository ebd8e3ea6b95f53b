using System.Text.Json.Serialization;
using MappedFileQueues.Tool.Verify;

namespace MappedFileQueues.Tool.Repair;

/// <summary>One change to one file.</summary>
/// <param name="File">The file.</param>
/// <param name="Action">What is done to it.</param>
/// <param name="Loss">What is lost by it, or rather by the damage; null for nothing.</param>
internal sealed record RepairStep(string File, string Action, string? Loss)
{
    /// <summary>Makes the change; a process that dies in it leaves the file as it was, or as it should be.</summary>
    [JsonIgnore]
    public Action<RepairFiles> Apply { get; init; } = static _ => { };
}

/// <summary>What `mfq repair` would do, or did.</summary>
/// <param name="StorePath">The store's directory.</param>
/// <param name="IsDryRun">Nothing was changed.</param>
/// <param name="Steps">The changes, in order.</param>
/// <param name="LeftAlone">Damage that this command does not touch, with the reason.</param>
/// <param name="Salvage">Where the files are as they were before.</param>
/// <param name="After">What a check found afterwards; null for a dry run.</param>
internal sealed record RepairReport(
    string StorePath,
    bool IsDryRun,
    IReadOnlyList<RepairStep> Steps,
    IReadOnlyList<string> LeftAlone,
    IReadOnlyList<string> Salvage,
    StoreVerification? After);

/// <summary>The JSON of `mfq repair`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(RepairReport))]
internal sealed partial class RepairJsonContext : JsonSerializerContext;

using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Bridge;

/// <summary>What `mfq bridge forward` and `fetch` have moved.</summary>
/// <param name="Messages">The messages.</param>
/// <param name="Bytes">Their bytes.</param>
/// <param name="Attempts">The connections that were tried.</param>
/// <param name="LastError">What the last failed one failed with.</param>
internal sealed record BridgeResult(long Messages, long Bytes, long Attempts, string? LastError);

/// <summary>The JSON of `mfq bridge`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(BridgeResult))]
internal sealed partial class BridgeJsonContext : JsonSerializerContext;

using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Info;

/// <summary>The JSON of `mfq info`: the public snapshot as it is, so that both have the same fields.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(MappedFileQueueInfo))]
internal sealed partial class InfoJsonContext : JsonSerializerContext;

using System.Text.Json.Serialization;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tool.Pack;

/// <summary>What `mfq pack stat --output json` writes.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(PackInfo))]
internal sealed partial class PackJsonContext : JsonSerializerContext;

using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>The JSON of `mfq consumers`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(ConsumerList))]
[JsonSerializable(typeof(ResetResult))]
[JsonSerializable(typeof(DeleteResult))]
internal sealed partial class ConsumersJsonContext : JsonSerializerContext;

/// <summary>The result of `list`.</summary>
/// <param name="Consumers">The consumers.</param>
internal sealed record ConsumerList(IReadOnlyList<MappedFileConsumerInfo> Consumers);

/// <summary>The result of `reset`.</summary>
/// <param name="Name">The consumer.</param>
/// <param name="Offset">Its stored offset now.</param>
internal sealed record ResetResult(string Name, long Offset);

/// <summary>The result of `delete`.</summary>
/// <param name="Name">The consumer that was removed.</param>
internal sealed record DeleteResult(string Name);

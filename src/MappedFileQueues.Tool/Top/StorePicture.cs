using System.Text.Json.Serialization;
using MappedFileQueues.Tool.Check;

namespace MappedFileQueues.Tool.Top;

/// <summary>One store at one moment.</summary>
/// <param name="Store">The store, below the folder that is watched.</param>
/// <param name="Status">How bad it is; unknown when nobody can look at it.</param>
/// <param name="Offset">The end of the published messages.</param>
/// <param name="BytesPerSecond">How fast it grows; null in the first picture.</param>
/// <param name="ConsumedPerSecond">How fast the consumer that is furthest behind moves; null in the first picture.</param>
/// <param name="Lag">Bytes that this consumer has to read.</param>
/// <param name="Consumer">That consumer; null when there is none.</param>
/// <param name="Unflushed">Appended bytes that are not on disk, also after a claim.</param>
/// <param name="BytesOnDisk">The room that the store takes.</param>
/// <param name="Producers">The processes with producers.</param>
/// <param name="Attached">The processes that have it open.</param>
/// <param name="State">ok, or what is wrong.</param>
internal sealed record StorePicture(
    string Store,
    CheckStatus Status,
    long Offset,
    double? BytesPerSecond,
    double? ConsumedPerSecond,
    long Lag,
    string? Consumer,
    long Unflushed,
    long BytesOnDisk,
    IReadOnlyList<int> Producers,
    IReadOnlyList<int> Attached,
    string State)
{
    /// <summary>A store, or a folder, that nobody can look at.</summary>
    public static StorePicture Unknown(string store, string why) =>
        new(store, CheckStatus.Unknown, 0, null, null, 0, null, 0, 0, [], [], why.ReplaceLineEndings(" "));
}

/// <summary>A picture of all stores.</summary>
/// <param name="Stores">The stores, the worst first.</param>
internal sealed record TopPicture(IReadOnlyList<StorePicture> Stores);

/// <summary>The JSON of `mfq top`: one value a picture.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(TopPicture))]
internal sealed partial class TopJsonContext : JsonSerializerContext;

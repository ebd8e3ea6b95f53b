using System.Text.Json.Serialization;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>What an export says about its store, so that an import can make one that holds the same.</summary>
/// <param name="Export">The version of the export's form.</param>
/// <param name="StoreId">The store that it was made of.</param>
/// <param name="StructSize">The size of its structs; 0 for messages of any length.</param>
/// <param name="Layout">The fingerprint of its struct.</param>
/// <param name="SegmentSize">The length of its segments.</param>
internal sealed record StoreHeader(int Export, Guid StoreId, int StructSize, ulong Layout, long SegmentSize)
{
    public const int Version = 1;

    /// <summary>That of a store.</summary>
    public static StoreHeader Of(StoreMeta meta) => new(
        Version,
        meta.StoreId,
        meta.Kind == StoreKind.Struct ? meta.StructSize : 0,
        meta.Kind == StoreKind.Struct ? meta.LayoutFingerprint : 0,
        meta.SegmentLength);
}

/// <summary>The end of an export: without it, a part is missing.</summary>
/// <param name="End">The number of messages before it.</param>
internal sealed record StoreTrailer(long End);

/// <summary>The result of `mfq export`, `mfq import` and `mfq replay`.</summary>
/// <param name="Messages">The number of messages.</param>
/// <param name="Bytes">Their length.</param>
/// <param name="IsComplete">False when a signal came first.</param>
internal sealed record TransferResult(long Messages, long Bytes, bool IsComplete);

/// <summary>The JSON of these commands, and of the lines of an export.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(StoreHeader))]
[JsonSerializable(typeof(StoreTrailer))]
[JsonSerializable(typeof(TransferResult))]
internal sealed partial class TransferJsonContext : JsonSerializerContext;

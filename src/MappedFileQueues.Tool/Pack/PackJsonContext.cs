using System.Text.Json.Serialization;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tool.Pack;

/// <summary>The output of the commands of `mfq pack` with `--output json`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(PackInfo))]
[JsonSerializable(typeof(PackCompaction))]
[JsonSerializable(typeof(PackVerification))]
[JsonSerializable(typeof(AddResult))]
[JsonSerializable(typeof(DeleteResult))]
[JsonSerializable(typeof(ExtractResult))]
[JsonSerializable(typeof(ListedObject))]
[JsonSerializable(typeof(GotObject))]
internal sealed partial class PackJsonContext : JsonSerializerContext;

/// <summary>The result of `get`.</summary>
/// <param name="Key">The key as text.</param>
/// <param name="Length">The length of the data in bytes.</param>
/// <param name="Data">The data, in base64.</param>
internal sealed record GotObject(string Key, int Length, ReadOnlyMemory<byte> Data);

/// <summary>The result of `add`.</summary>
/// <param name="Added">The number of files that were put.</param>
/// <param name="Unchanged">The number of files that were in the pack already, byte for byte.</param>
/// <param name="Skipped">The number of entries that are not regular files.</param>
/// <param name="Length">The bytes of the files that were put.</param>
/// <param name="Evicted">The number of objects that had to make room.</param>
internal sealed record AddResult(long Added, long Unchanged, long Skipped, long Length, long Evicted);

/// <summary>The result of `delete`.</summary>
/// <param name="Deleted">The number of removed objects.</param>
/// <param name="Missing">The number of keys without an object.</param>
internal sealed record DeleteResult(long Deleted, long Missing);

/// <summary>The result of `extract`.</summary>
/// <param name="Extracted">The number of files that were written.</param>
/// <param name="Failed">The number of objects that were not written.</param>
/// <param name="Length">The bytes of the files that were written.</param>
internal sealed record ExtractResult(long Extracted, long Failed, long Length);

/// <summary>A line of `list`.</summary>
/// <param name="Key">The key as text.</param>
/// <param name="Length">The length of the data in bytes.</param>
/// <param name="Sequence">The order of puts: a higher number was put later.</param>
internal sealed record ListedObject(string Key, int Length, long Sequence);

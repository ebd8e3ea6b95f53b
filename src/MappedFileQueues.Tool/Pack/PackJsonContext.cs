using System.Text.Json.Serialization;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tool.Pack;

/// <summary>What the commands of `mfq pack` write with `--output json`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(PackInfo))]
[JsonSerializable(typeof(PackCompaction))]
[JsonSerializable(typeof(PackVerification))]
[JsonSerializable(typeof(AddResult))]
[JsonSerializable(typeof(DeleteResult))]
[JsonSerializable(typeof(ExtractResult))]
[JsonSerializable(typeof(ListedObject))]
internal sealed partial class PackJsonContext : JsonSerializerContext;

/// <summary>What `add` has done.</summary>
/// <param name="Added">How many files were put.</param>
/// <param name="Unchanged">How many were in the pack already, byte for byte.</param>
/// <param name="Skipped">What is no regular file.</param>
/// <param name="Length">The bytes of the files that were put.</param>
internal sealed record AddResult(long Added, long Unchanged, long Skipped, long Length);

/// <summary>What `delete` has done.</summary>
/// <param name="Deleted">How many objects are gone.</param>
/// <param name="Missing">How many keys had none.</param>
internal sealed record DeleteResult(long Deleted, long Missing);

/// <summary>What `extract` has done.</summary>
/// <param name="Extracted">How many files were written.</param>
/// <param name="Failed">How many objects were not.</param>
/// <param name="Length">The bytes of the files that were written.</param>
internal sealed record ExtractResult(long Extracted, long Failed, long Length);

/// <summary>A line of `list`.</summary>
/// <param name="Key">The key as text.</param>
/// <param name="Length">The length of the data in bytes.</param>
/// <param name="Sequence">A higher one was put later.</param>
internal sealed record ListedObject(string Key, int Length, long Sequence);

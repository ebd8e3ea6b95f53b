using System.Text.Json;
using System.Text.Json.Serialization;
using MappedFileQueues.Log.Snapshots;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Bench;
using MappedFileQueues.Tool.Bridge;
using MappedFileQueues.Tool.DeadLetters;
using MappedFileQueues.Tool.Fence;
using MappedFileQueues.Tool.Pack;
using MappedFileQueues.Tool.Produce;
using MappedFileQueues.Tool.Repair;
using MappedFileQueues.Tool.Retention;
using MappedFileQueues.Tool.Structs;
using MappedFileQueues.Tool.Top;
using MappedFileQueues.Tool.VersionOne;

namespace MappedFileQueues.Tool.Output;

/// <summary>The JSON of all commands. docs/JSON.md says what each member of these types means.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(AddResult))]
[JsonSerializable(typeof(BenchResult))]
[JsonSerializable(typeof(BridgeResult))]
[JsonSerializable(typeof(CheckResults))]
[JsonSerializable(typeof(ConsumerList))]
[JsonSerializable(typeof(ConsumerPlace))]
[JsonSerializable(typeof(DeletedConsumer))]
[JsonSerializable(typeof(DeletedObjects))]
[JsonSerializable(typeof(ExtractResult))]
[JsonSerializable(typeof(FenceResult))]
[JsonSerializable(typeof(FencedMember))]
[JsonSerializable(typeof(FigureResult[]))]
[JsonSerializable(typeof(GotObject))]
[JsonSerializable(typeof(LetterList))]
[JsonSerializable(typeof(ListedObject))]
[JsonSerializable(typeof(MappedFileQueueInfo))]
[JsonSerializable(typeof(MemberList))]
[JsonSerializable(typeof(PackCompaction))]
[JsonSerializable(typeof(PackInfo))]
[JsonSerializable(typeof(PackVerification))]
[JsonSerializable(typeof(ProduceSummary))]
[JsonSerializable(typeof(RepairReport))]
[JsonSerializable(typeof(SettleResult))]
[JsonSerializable(typeof(SnapshotResult))]
[JsonSerializable(typeof(StoreHeader))]
[JsonSerializable(typeof(StoreTrailer))]
[JsonSerializable(typeof(StoreVerification))]
[JsonSerializable(typeof(StructText))]
[JsonSerializable(typeof(TopPicture))]
[JsonSerializable(typeof(TransferResult))]
[JsonSerializable(typeof(TrimResult))]
[JsonSerializable(typeof(VersionOneResult))]
internal sealed partial class ToolJson : JsonSerializerContext
{
    /// <summary>The same, each value on one line.</summary>
    public static readonly ToolJson Lines = new(new JsonSerializerOptions { PropertyNamingPolicy = JsonNamingPolicy.CamelCase });
}

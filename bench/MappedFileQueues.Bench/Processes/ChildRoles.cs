using MappedFileQueues.Bench.Bridge;
using MappedFileQueues.Bench.DotnetIo;
using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Files;
using MappedFileQueues.Bench.Gate;
using MappedFileQueues.Bench.Groups;
using MappedFileQueues.Bench.Headline;
using MappedFileQueues.Bench.Hosting;
using MappedFileQueues.Bench.Interop;
using MappedFileQueues.Bench.Limits;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Packs;
using MappedFileQueues.Bench.Peers;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;
using MappedFileQueues.Bench.Retention;
using MappedFileQueues.Bench.Serializers;
using static MappedFileQueues.ChecksumMode;
using static MappedFileQueues.ProducerMode;

namespace MappedFileQueues.Bench.Processes;

/// <summary>Which code a child process runs; most figures are one role of their own name.</summary>
internal static class ChildRoles
{
    private static readonly Dictionary<string, Func<ChildContext, IReadOnlyList<Samples>>> s_roles = new()
    {
        ["append_exclusive"] = child => Append(child, options => new StructQueue(options), Exclusive),
        ["append_shared"] = child => Append(child, options => new StructQueue(options), Shared),
        ["append_batch"] = child => Append(child, options => new BatchQueue(options), Shared),
        ["messages_append"] = child => Append(child, options => new MessageQueue(options), Shared),
        ["append_shared" + GateRow.ClaimsSuffix] =
            child => Append(child, options => new StructQueue(options), Shared, RawSides.Claiming),
        ["messages_append" + GateRow.ClaimsSuffix] =
            child => Append(child, options => new MessageQueue(options), Shared, RawSides.Claiming),
        ["read_verify"] = child => Read(child, options => new StructQueue(options), WriteAndVerify),
        ["read_noverify"] = child => Read(child, options => new StructQueue(options), WriteOnly),
        ["read_batch"] = child => Read(child, options => new BatchQueue(options), WriteAndVerify),
        ["messages_read"] = child => Read(child, options => new MessageQueue(options), WriteAndVerify),
        [KilobyteFigure.AppendName] = child => new KilobyteFigure(child).Measure(),
        ["append_shared_2proc"] = child => new SharedProducersFigure(child).Measure(),
        ["proc_to_proc"] = child => new ProcessToProcessFigure(child, isCold: false).Measure(),
        ["proc_to_proc_cold"] = child => new ProcessToProcessFigure(child, isCold: true).Measure(),
        [BackPressureFigure.FigureName] = child => new BackPressureFigure(child).Measure(),
        ["roundtrip"] = child => new RoundTripFigure(child).Measure(),
        ["wake_p50"] = child => new WakeFigure(child).Measure(),
        ["alloc_per_message"] = child => new AllocationFigure(child).Measure(),
        [AsyncRoundTripFigure.Name] = child => new AsyncRoundTripFigure(child).Measure(),
        [ChannelFigure.Name] = child => new ChannelFigure(child).Measure(),
        [SerializerFigure.JsonWrite] =
            child => SerializerFigure.Json(child).Measure(SerializerFigure.JsonWrite, SerializerFigure.JsonRead),
        [SerializerFigure.ProtobufWrite] =
            child => SerializerFigure.Protobuf(child).Measure(SerializerFigure.ProtobufWrite, SerializerFigure.ProtobufRead),
        [SerializerFigure.MessagePackWrite] = child =>
            SerializerFigure.MessagePack(child).Measure(SerializerFigure.MessagePackWrite, SerializerFigure.MessagePackRead),
        [SerializerFigure.MemoryPackWrite] = child =>
            SerializerFigure.MemoryPack(child).Measure(SerializerFigure.MemoryPackWrite, SerializerFigure.MemoryPackRead),
        [HostedConsumerFigure.Name] = child => new HostedConsumerFigure(child, isBatch: true).Measure(),
        [HostedConsumerFigure.EachName] = child => new HostedConsumerFigure(child, isBatch: false).Measure(),
        [MetricsFigure.Name] = child => new MetricsFigure(child).Measure(),
        [LookFigure.Name] = child => new LookFigure(child).Measure(),
        ["raw_fdatasync"] = DurableFigure.MeasureRaw,
        ["durable_1"] = child => new DurableFigure(child, callerCount: 1).Measure(),
        ["durable_16"] = child => new DurableFigure(child, callerCount: 16).Measure(),
        ["durable_64"] = child => new DurableFigure(child, callerCount: 64).Measure(),
        ["durable_64_async"] = child => new DurableFigure(child, callerCount: 64, isAsynchronous: true).Measure(),
        ["durable_2proc"] = child => new DurablePairFigure(child).Measure(),
        [IntervalFigure.Name] = child => new IntervalFigure(child).Measure(),
        [LongAppendFigure.Name] = child => new LongAppendFigure(child).Measure(),
        [RollFigure.Name] = child => new RollFigure(child).Measure(),
        [IdleFigure.RawRole] = IdleFigure.WaitRaw,
        [IdleFigure.QueueRole] = IdleFigure.WaitOnQueues,
        [OpenEmptyFigure.RawRole] = OpenEmptyFigure.MakeFiles,
        [OpenEmptyFigure.QueueRole] = OpenEmptyFigure.MakeStores,
        [OpenAfterKillFigure.FillRole] = OpenAfterKillFigure.Fill,
        [OpenAfterKillFigure.RawRole] = OpenAfterKillFigure.ReadFile,
        [OpenAfterKillFigure.QueueRole] = OpenAfterKillFigure.OpenStore,
        [RecoverFigure.FillRole] = RecoverFigure.Fill,
        [RecoverFigure.QueueRole] = RecoverFigure.Recover,
        [OpenCleanFigure.FillRole] = OpenCleanFigure.Fill,
        [OpenCleanFigure.RawRole] = OpenCleanFigure.MapFile,
        [OpenCleanFigure.QueueRole] = OpenCleanFigure.OpenStore,
        [AppendBlocksFigure.FirstName] = child => new AppendBlocksFigure(child, FileRoom.None).Measure(),
        [AppendBlocksFigure.SecondName] = child => new AppendBlocksFigure(child, FileRoom.Reused).Measure(),
        ["lines_1"] = Lines(1, LineFile.Written),
        ["lines_4"] = Lines(4, LineFile.Written),
        ["lines_1_new"] = Lines(1, LineFile.New),
        ["lines_4_new"] = Lines(4, LineFile.New),
        ["lines_1_default"] = Lines(1, LineFile.Default),
        ["lines_4_default"] = Lines(4, LineFile.Default),
        [ReadSequentialFigure.WarmName] = child => new ReadSequentialFigure(child).Measure(),
        [ReadLinesFigure.Name] = child => new ReadLinesFigure(child).Measure(),
        [LogLineFigure.Name] = child => LogLineFigure.BesideSerilog(child),
        [ClassicTable.Role] = ClassicTable.Measure,
        [SmallFilesFigure.PutName] = child => new SmallFilesFigure(child).Measure(),
        [SmallFilesFigure.ColdName] = child => new SmallFilesFigure(child).MeasureCold(),
        [LongPutFigure.Name] = child => new LongPutFigure(child).Measure(),
        [ManyObjectsFigure.BytesName] = child => new ManyObjectsFigure(child).Measure(),
        [BridgeFigures.ForwardName] = Move(
            1, BridgeFigures.PackLength, BridgeFigures.ForwardName, BridgeFigures.BacklogName, BridgeFigures.FetchName),
        [BridgeFigures.ForwardName3] = Move(
            3, BridgeFigures.PackLength, BridgeFigures.ForwardName3, BridgeFigures.BacklogName3, BridgeFigures.FetchName3),
        [BridgeFigures.ForwardUnpackedName] = Move(
            1, packLength: 0, BridgeFigures.ForwardUnpackedName, BridgeFigures.BacklogUnpackedName,
            BridgeFigures.FetchUnpackedName),
        [LatencyFigure.Name] = child => new LatencyFigure(child).Measure(),
        [LoneFigure.Name] = child => new LoneFigure(child).Measure(),
        [DurableFigure.RecycledName] = child => new DurableFigure(child, callerCount: 1, isRecycled: true).Measure(),
        [SustainedAppendFigure.Name] = child => new SustainedAppendFigure(child).Measure(),
        [RecycledAppendFigure.Name] = child => new RecycledAppendFigure(child).Measure(),
        [RecycledAppendFigure.RawRole] = RecycledAppendFigure.MeasureRaw,
        [TrimFigure.Name] = child => new TrimFigure(child).Measure(),
        [HeadlineTable.StructRole] = HeadlineTable.Measure,
        [HeadlineTable.JsonRole] = HeadlineTable.Measure,
        [HeadlineTable.ProtobufRole] = HeadlineTable.Measure,
        [HeadlineTable.MessagePackRole] = HeadlineTable.Measure,
        [HeadlineTable.MemoryPackRole] = HeadlineTable.Measure,
        [LimitLoops.FetchAddRole] = child => new LimitLoops(child).FetchAdd(),
        [LimitLoops.WakeBackRole] = child => new WakeBackLoop(child).Measure(),
        [LimitLoops.FlushRole] = child => new LimitLoops(child).Flush(),
    };

    public static IReadOnlyList<Samples> Run(ChildContext context) =>
        s_roles.TryGetValue(context.Task.Role, out Func<ChildContext, IReadOnlyList<Samples>>? role)
            ? role(context)
            : context.Task.Role.StartsWith(IoTable.RolePrefix, StringComparison.Ordinal)
            ? IoMeasurement.Measure(context)
            : PeerRoles.All.TryGetValue(context.Task.Role, out role)
                || GroupFigures.Roles.TryGetValue(context.Task.Role, out role)
                || InteropFigures.Roles.TryGetValue(context.Task.Role, out role)
            ? role(context)
            : throw new ToolException($"No figure has this role: role={context.Task.Role}.");

    private static Func<ChildContext, IReadOnlyList<Samples>> Lines(int threadCount, LineFile kind) =>
        child => new LinesFigure(child, threadCount, kind).Measure();

    private static Func<ChildContext, IReadOnlyList<Samples>> Move(
        int nodeCount, int packLength, string forwardName, string backlogName, string fetchName) =>
        child => new MoveFigure(child, nodeCount, packLength, forwardName, backlogName, fetchName).Measure();

    private static IReadOnlyList<Samples> Append(
        ChildContext child, Func<MappedFileQueueOptions, BenchQueue> open, ProducerMode mode, RawSides? raw = null) =>
        new AppendFigure(child, (path, count) => open(StoreOf(child, path, count, mode, WriteAndVerify)), raw).Measure();

    private static IReadOnlyList<Samples> Read(
        ChildContext child, Func<MappedFileQueueOptions, BenchQueue> open, ChecksumMode checksum) =>
        new ReadFigure(child, (path, count) => open(StoreOf(child, path, count, Exclusive, checksum))).Measure();

    private static MappedFileQueueOptions StoreOf(
        ChildContext child, string path, long count, ProducerMode mode, ChecksumMode checksum) => child.Task.IsCold
        ? BenchStore.InDefaultSegments(path, mode, checksum)
        : BenchStore.InOneSegment(path, count, mode, checksum);
}

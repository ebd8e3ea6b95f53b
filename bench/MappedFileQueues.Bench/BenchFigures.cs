using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Hosting;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Retention;
using MappedFileQueues.Bench.Serializers;

namespace MappedFileQueues.Bench;

/// <summary>What is measured together, under which names, and how.</summary>
/// <param name="Names">What it yields.</param>
/// <param name="Measure">How.</param>
/// <param name="IsOnDemand">Only when it is named: it takes minutes and much room on the disk, or no page shows it.</param>
/// <param name="IsFlushed">A flush to the disk is inside the time, on both sides: shown in a table of its own.</param>
/// <param name="Note">What has to be known to read the figures; printed after them.</param>
internal sealed record BenchFigureGroup(
    IReadOnlyList<string> Names,
    Func<BenchRun, IReadOnlyList<Samples>> Measure,
    bool IsOnDemand = false,
    bool IsFlushed = false,
    string? Note = null);

/// <summary>All figures, in the order of measuring and showing. docs/BENCHMARKS.md says what each name means.</summary>
internal static class BenchFigures
{
    public static IReadOnlyList<BenchFigureGroup> Groups { get; } =
    [
        InOneProcess("append_exclusive"),
        InOneProcess("append_shared"),
        InTwoProcesses("append_shared_2proc", "append_shared_2proc"),
        InOneProcess("append_batch"),
        new([RollFigure.Name, RollFigure.PauseName], run => run.Measure(RollFigure.Name, processCount: 1)),
        InOneProcess("read_verify"),
        InOneProcess("read_noverify"),
        InOneProcess("read_batch"),
        InOneProcess("messages_append"),
        InOneProcess("messages_read"),
        InTwoProcesses("proc_to_proc", "proc_to_proc"),
        InTwoProcesses("proc_to_proc_cold", "proc_to_proc_cold"),
        InTwoProcesses(BackPressureFigure.FigureName, BackPressureFigure.FigureName),
        InTwoProcesses("roundtrip", "roundtrip_p50", "roundtrip_p99", "roundtrip_p999"),
        InTwoProcesses("wake_p50", "wake_p50"),
        new([IdleFigure.Name], IdleFigure.Measure),
        new([OpenEmptyFigure.Name, OpenEmptyFigure.WarmName, OpenEmptyFigure.ProcessName], OpenEmptyFigure.Measure),
        new([OpenAfterKillFigure.Name], OpenAfterKillFigure.Measure),
        new([RecoverFigure.Name], RecoverFigure.Measure),
        new([OpenCleanFigure.Name], OpenCleanFigure.Measure),
        InOneProcess("raw_fdatasync") with { IsFlushed = true },
        InOneProcess("durable_1") with { IsFlushed = true },
        InOneProcess("durable_16") with { IsFlushed = true },
        InOneProcess("durable_64") with { IsFlushed = true },
        InOneProcess("durable_64_async") with { IsFlushed = true },
        InTwoProcesses("durable_2proc", "durable_2proc") with { IsFlushed = true },
        InOneProcess(DurableFigure.RecycledName) with { IsFlushed = true },
        InOneProcess("interval_append"),
        new(
            [RecycledAppendFigure.Name, RecycledAppendFigure.PauseName, RecycledAppendFigure.DiskName],
            run => run.Measure(RecycledAppendFigure.Name, processCount: 1)),
        new([TrimFigure.Name, TrimFigure.CallName], run => run.Measure(TrimFigure.Name, processCount: 1)),
        InOneProcess("alloc_per_message"),
        InTwoProcesses(AsyncRoundTripFigure.Name, AsyncRoundTripFigure.Name),
        InOneProcess(ChannelFigure.Name),
        new(
            [SerializerFigure.JsonWrite, SerializerFigure.JsonRead],
            run => run.Measure(SerializerFigure.JsonWrite, processCount: 1)),
        new(
            [SerializerFigure.ProtobufWrite, SerializerFigure.ProtobufRead],
            run => run.Measure(SerializerFigure.ProtobufWrite, processCount: 1)),
        new(
            [SerializerFigure.MessagePackWrite, SerializerFigure.MessagePackRead],
            run => run.Measure(SerializerFigure.MessagePackWrite, processCount: 1)),
        new(
            [SerializerFigure.MemoryPackWrite, SerializerFigure.MemoryPackRead],
            run => run.Measure(SerializerFigure.MemoryPackWrite, processCount: 1)),
        InOneProcess(HostedConsumerFigure.Name),
        InOneProcess(HostedConsumerFigure.EachName),
        InOneProcess(MetricsFigure.Name),
        new([LookFigure.Name, LookFigure.HealthName, LookFigure.MeterName], run => run.Measure(LookFigure.Name, processCount: 1)),
        InOneProcess(SustainedAppendFigure.Name) with { IsOnDemand = true },
        InOneProcess(LongAppendFigure.Name) with { IsOnDemand = true },
        new(
            [KilobyteFigure.AppendName, KilobyteFigure.ReadName],
            run => run.Measure(KilobyteFigure.AppendName, processCount: 1),
            IsOnDemand: true),
    ];

    /// <summary>Without those that have to be named.</summary>
    public static IEnumerable<string> UsualNames => Groups.Where(group => !group.IsOnDemand).SelectMany(group => group.Names);

    /// <summary>The figures that can be measured with cold files too.</summary>
    public static IReadOnlyList<string> ColdNames { get; } =
    [
        "append_exclusive", "append_shared", "append_batch", "messages_append", "read_verify", "read_noverify", "read_batch",
        "messages_read",
    ];

    public static IEnumerable<string> Names => Groups.SelectMany(group => group.Names);

    private static BenchFigureGroup InOneProcess(string name) => new([name], run => run.Measure(name, processCount: 1));

    private static BenchFigureGroup InTwoProcesses(string role, params string[] names) =>
        new(names, run => run.Measure(role, processCount: 2));
}

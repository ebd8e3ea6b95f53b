using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Interop;

/// <summary>
/// The C library and the Python package beside C# in the same run. The raw loops are those of bench/limits.c with the checksum
/// that a frame has.
/// </summary>
internal static class InteropFigures
{
    public static BenchSuite Suite { get; } = new(
        "interop",
        "Measures the C library and the Python package beside C#.",
        [
            InOneProcess("append"),
            InOneProcess("append_c"),
            InOneProcess("append_shared"),
            InOneProcess("append_shared_c"),
            InOneProcess("read"),
            InOneProcess("read_c"),
            Pair("roundtrip"),
            Pair(CRoundTripFigure.FigureName),
            new(["read_python"], run => PythonFigure.Measure(run, "read_python", "read")),
            new(["structs_python"], run => PythonFigure.Measure(run, "structs_python", "structs")),
        ],
        Messages: (BenchSettings.MessagesDefault, BenchSettings.MessagesDefaultQuick));

    /// <summary>The roles, by name; those of C# have a prefix, because the suite of queues has other raw loops.</summary>
    public static IReadOnlyDictionary<string, Func<ChildContext, IReadOnlyList<Samples>>> Roles { get; } =
        new Dictionary<string, Func<ChildContext, IReadOnlyList<Samples>>>
        {
            ["interop_append"] = child => Append(child, ProducerMode.Exclusive, options => new StructQueue(options)),
            ["interop_append_c"] = child => Append(
                child, ProducerMode.Exclusive, options => new CQueue(options, CLibrary.ProducerOptions.Exclusive)),
            ["interop_append_shared"] = child => Append(child, ProducerMode.Shared, options => new StructQueue(options)),
            ["interop_append_shared_c"] = child => Append(
                child, ProducerMode.Shared, options => new CQueue(options, CLibrary.ProducerOptions.Shared)),
            ["interop_read"] = child => Read(child, options => new StructQueue(options)),
            ["interop_read_c"] = child => Read(child, options => new CQueue(options, CLibrary.ProducerOptions.Exclusive)),
            ["interop_roundtrip"] = child => new RoundTripFigure(child).Measure(),
            ["interop_roundtrip_c"] = child => new CRoundTripFigure(child).Measure(),
        };

    private static BenchFigureGroup InOneProcess(string name) => new([name], run => Measure(run, name, processCount: 1));

    private static BenchFigureGroup Pair(string name) =>
        new([$"{name}_p50", $"{name}_p99", $"{name}_p999"], run => Measure(run, name, processCount: 2));

    private static IReadOnlyList<Samples> Measure(BenchRun run, string name, int processCount)
    {
        CLibrary.Compile(run);
        return [.. run.Measure($"interop_{name}", processCount).Select(samples => samples with
        {
            Name = samples.Name.Replace("interop_", "", StringComparison.Ordinal),
        })];
    }

    private static IReadOnlyList<Samples> Append(
        ChildContext child, ProducerMode mode, Func<MappedFileQueueOptions, BenchQueue> open)
    {
        CLibrary.Load(child);
        return new AppendFigure(child, (path, count) => open(BenchStore.InOneSegment(path, count, mode)), CLibrary.Raw).Measure();
    }

    private static IReadOnlyList<Samples> Read(ChildContext child, Func<MappedFileQueueOptions, BenchQueue> open)
    {
        CLibrary.Load(child);
        return new ReadFigure(
            child, (path, count) => open(BenchStore.InOneSegment(path, count, ProducerMode.Exclusive)), CLibrary.Raw).Measure();
    }
}

using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Groups;

/// <summary>
/// The figures of headers, of seeking, of groups, of many consumers and of producers with an id, in the order of measuring. The
/// raw loops are those of `queues`: a copy of 64 bytes, and the bare read of them.
/// </summary>
internal static class GroupFigures
{
    public static BenchSuite Suite { get; } = new(
        "groups",
        "Measures headers, seeking, groups of competing consumers, and producers with an id.",
        [
            BenchSuite.Group("produce_plain"),
            BenchSuite.Group("produce_headers"),
            BenchSuite.Group("produce_stamped"),
            BenchSuite.Group("dedupe"),
            BenchSuite.Group("read_plain"),
            BenchSuite.Group("read_headers"),
            BenchSuite.Group("group_1"),
            BenchSuite.Group("group_single"),
            new(["group_2"], run => run.Measure("group_2", processCount: 2)),
            new(["group_single_2"], run => run.Measure("group_single_2", processCount: 2)),
            new([GroupDeathFigure.Name], GroupDeathFigure.Measure),
            new([SeekFigure.TimeName, SeekFigure.NumberName], run => run.Measure(SeekFigure.TimeName, processCount: 1)),
            BenchSuite.Group(FanOutFigure.Name),
        ],
        Messages: (BenchSettings.MessagesDefault, BenchSettings.MessagesDefaultQuick));

    /// <summary>The roles, by name.</summary>
    public static IReadOnlyDictionary<string, Func<ChildContext, IReadOnlyList<Samples>>> Roles { get; } =
        new Dictionary<string, Func<ChildContext, IReadOnlyList<Samples>>>
        {
            ["produce_plain"] = child => Append(child, options => new StructQueue(options)),
            ["produce_headers"] = child => Append(child, options => new HeadersQueue(options)),
            ["produce_stamped"] = child => Append(child, options => new StampedQueue(options)),
            ["dedupe"] = child => Append(child, options => new NumberedQueue(options)),
            ["read_plain"] = child => Read(child, options => new StructQueue(options)),
            ["read_headers"] = child => Read(child, options => new HeadersQueue(options)),
            ["group_1"] = child => Read(child, options => new GroupQueue(options, 64)),
            ["group_single"] = child => Read(child, options => new GroupQueue(options, 1)),
            ["group_2"] = child => new GroupPairFigure(child, 64).Measure(),
            ["group_single_2"] = child => new GroupPairFigure(child, 1).Measure(),
            [GroupDeathFigure.HolderRole] = GroupDeathFigure.Hold,
            [SeekFigure.TimeName] = child => new SeekFigure(child).Measure(),
            [FanOutFigure.Name] = child => new FanOutFigure(child).Measure(),
        };

    private static IReadOnlyList<Samples> Append(ChildContext child, Func<MappedFileQueueOptions, BenchQueue> open) =>
        new AppendFigure(child, (path, count) => open(StoreOf(path, count))).Measure();

    private static IReadOnlyList<Samples> Read(ChildContext child, Func<MappedFileQueueOptions, BenchQueue> open) =>
        new ReadFigure(child, (path, count) => open(StoreOf(path, count))).Measure();

    /// <summary>One segment, with room for the headers.</summary>
    private static MappedFileQueueOptions StoreOf(string path, long count) =>
        BenchStore.InOneSegment(path, HeadersQueue.Longer(count), ProducerMode.Shared);
}

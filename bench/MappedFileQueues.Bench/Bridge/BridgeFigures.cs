using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>The figures of the group `bridge`, in the order of measuring. docs/BENCHMARKS.md says what each name means.</summary>
internal static class BridgeFigures
{
    public const string ForwardName = "bridge_forward";
    public const string FetchName = "bridge_fetch";
    public const string BacklogName = "bridge_backlog";
    public const string ForwardName3 = "bridge_forward_3";
    public const string FetchName3 = "bridge_fetch_3";
    public const string BacklogName3 = "bridge_backlog_3";
    public const string ForwardUnpackedName = "bridge_forward_unpacked";
    public const string FetchUnpackedName = "bridge_fetch_unpacked";
    public const string BacklogUnpackedName = "bridge_backlog_unpacked";

    public const int PackLength = StreamForwarderOptions.PackLengthDefault;

    public static BenchSuite Suite { get; } = new(
        "bridge",
        "Measures the bridge to RabbitMQ streams, on brokers of its own, beside a bare client that moves the same messages.",
        [
            Group(ForwardName, BacklogName, FetchName),
            Group(ForwardName3, BacklogName3, FetchName3),
            Group(ForwardUnpackedName, BacklogUnpackedName, FetchUnpackedName),
            Group(LatencyFigure.Name),
            Group(LoneFigure.Name, LoneFigure.LateName),
        ]);

    /// <summary>Looks for the server first: a child's error would come with a stack.</summary>
    private static BenchFigureGroup Group(params string[] names) => new(
        names,
        run => BrokerCluster.Obstacle is { } obstacle
            ? throw new ToolException(obstacle)
            : run.Measure(names[0], processCount: 1));
}

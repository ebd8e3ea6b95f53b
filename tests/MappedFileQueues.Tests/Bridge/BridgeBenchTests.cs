using MappedFileQueues.Tests.Tool;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>
/// The figures about the bridge with tiny input, so that none stops working unseen. The bench has brokers of its own.
/// </summary>
[Trait("Category", "Slow")]
public sealed class BridgeBenchTests
{
    /// <summary>
    /// Each group starts a broker. Those of a cluster and of messages that are not packed run the same code as the first, with
    /// another number.
    /// </summary>
    private static readonly Dictionary<string, string> s_units = new()
    {
        ["bridge_forward"] = "msg/s",
        ["bridge_fetch"] = "msg/s",
        ["bridge_latency_p50"] = "ms",
        ["bridge_lone_p50"] = "ms",
        ["bridge_lone_p99"] = "ms",
    };

    [Fact]
    public void BenchBridge_TinyInput_WritesEveryFigureAndLeavesNoFiles()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "figures.json");
        using ChildProcess bench = ChildProcess.StartBench(
            "bridge", "--quick", "--bytes", "65536", "--repetitions", "1", "--no-warm-up",
            "--only", string.Join(',', s_units.Keys), "--dir", folder.StorePath, "--json", json);

        bench.ExpectExit(0, TimeSpan.FromMinutes(5));

        BenchResults.ExpectUnits(json, s_units);
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }
}

using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Peers;

/// <summary>A peer and ours, which get the same messages.</summary>
/// <param name="OpenPeer">Opens the peer on a path, for so many messages.</param>
/// <param name="OpenOurs">Opens ours.</param>
/// <param name="Count">The messages of a repetition.</param>
/// <param name="WarmUpCount">Those of a call while code is compiled; few where each is a flush.</param>
/// <param name="Unit">"ns" for the time of a message, "msg/s" for a rate.</param>
/// <param name="IsPrepared">Whether the room is made before the clock starts.</param>
internal sealed record PeerSides(
    Func<string, long, BenchQueue> OpenPeer,
    Func<string, long, BenchQueue> OpenOurs,
    long Count,
    int WarmUpCount = 500,
    string Unit = "ns",
    bool IsPrepared = false)
{
    /// <summary>What the peers' messages may add up to while code is compiled.</summary>
    private const int WarmUpMax = 2_000_000;

    /// <summary>Runs a body with both until the compiler has nothing left to improve.</summary>
    public void Compile(ChildContext context, Action<BenchQueue> body)
    {
        string peerPath = context.Path("warm-peer");
        string oursPath = context.Path("warm-ours");
        long count = Math.Max(WarmUpCount, Math.Min(Count, WarmUpMax));
        using (BenchQueue peer = OpenPeer(peerPath, count))
        using (BenchQueue ours = OpenOurs(oursPath, count))
        {
            WarmUp.UntilCompiled(() =>
            {
                body(peer);
                body(ours);
            });
        }

        Delete(peerPath);
        Delete(oursPath);
    }

    /// <summary>The figure's value for a repetition that took so many ticks of the clock.</summary>
    public double Value(long ticks) => Unit == "ns" ? Clock.Nanoseconds(ticks) / Count : Count * 1e9 / Clock.Nanoseconds(ticks);

    /// <summary>Removes a folder; a peer that lives in memory has none.</summary>
    public static void Delete(string path)
    {
        if (Directory.Exists(path))
            Directory.Delete(path, recursive: true);
    }
}

using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>
/// Peers that fall silent without closing anything. The client alone notices it after three heartbeats, and may hang then, or
/// never notice it again.
/// </summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class SilenceTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>The sockets are full when the silence begins, so that the client waits in a write.</summary>
    [Fact]
    public async Task Forward_PeerFallsSilentUnderLoad_ConnectsAgainAndLosesNothing()
    {
        const int Count = 3000;
        string filler = new('x', 16_000);
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.SegmentSize = 16 << 20;
        _scene.Produce("first");
        StreamForwarder forwarder = new(Fill(_scene.Forward(), proxy));
        using CancellationTokenSource stop = new();
        Task forwarding = forwarder.RunAsync(stop.Token);
        Eventually.True(() => forwarder.GetStatus().Messages == 1 || forwarding.IsCompleted, "it runs", BridgeScene.Deadline);

        proxy.FallSilent();
        _scene.Produce(Enumerable.Range(0, Count).Select(number => $"{number} {filler}"));
        Eventually.True(
            () => forwarder.GetStatus().Messages > Count || forwarding.IsCompleted, "it goes on", BridgeScene.Deadline);

        Assert.Contains("silent for 6 s", forwarder.GetStatus().LastError!, StringComparison.Ordinal);
        Assert.InRange(forwarder.GetStatus().Attempts, 2, int.MaxValue);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => forwarding);
        await _scene.FetchAsync(Count + 1);
        Assert.Equal(
            ["first", .. Enumerable.Range(0, Count).Select(number => $"{number}")],
            _scene.Received().Select(text => text.Split(' ')[0]));
    }

    [Fact]
    public async Task Fetch_PeerFallsSilentWhileIdle_ConnectsAgain()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        using FrameProxy proxy = new(broker.Node.Port);
        StreamFetcher fetcher = new(Fill(_scene.Fetch(), proxy));
        using CancellationTokenSource stop = new();
        Task fetching = fetcher.RunAsync(stop.Token);
        Eventually.True(() => fetcher.GetStatus().Messages == 1 || fetching.IsCompleted, "it runs", BridgeScene.Deadline);

        // Heartbeats are enough to keep a quiet connection.
        await Tries.OneSucceedsAsync(async () =>
        {
            long attempts = fetcher.GetStatus().Attempts;
            await Task.Delay(TimeSpan.FromSeconds(10));
            Assert.Equal((BridgeState.Running, attempts), (fetcher.GetStatus().State, fetcher.GetStatus().Attempts));
        });
        proxy.FallSilent();
        _scene.Produce("two");
        await BridgeScene.OnceAsync(_scene.Forward());
        Eventually.True(() => fetcher.GetStatus().Messages == 2 || fetching.IsCompleted, "it goes on", BridgeScene.Deadline);

        Assert.Contains("silent for 6 s", fetcher.GetStatus().LastError!, StringComparison.Ordinal);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>
    /// Only the silence ends the connection, because no answer is awaited for that long. With a heartbeat of 1 s, a busy machine
    /// was as silent as the peer.
    /// </summary>
    private static T Fill<T>(T options, FrameProxy proxy)
        where T : BridgeOptions
    {
        options.Brokers = proxy.Address;
        (options.Heartbeat, options.RequestTimeout) = (TimeSpan.FromSeconds(3), TimeSpan.FromMinutes(5));
        return options;
    }
}

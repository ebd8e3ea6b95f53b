using System.Net;
using System.Net.Sockets;
using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>Networks that are silent or slow.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeNetworkTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// A network that falls silent is noticed later than a stream whose end is missing was believed to be: the fetcher stopped
    /// for good, and told of a stream that had been deleted.
    /// </summary>
    [Fact]
    public async Task Fetch_NetworkFallsSilent_ConnectsAgain()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        await _scene.FetchAsync(1);
        _scene.Produce("two");
        await BridgeScene.OnceAsync(_scene.Forward());

        using FrameProxy proxy = new(broker.Node.Port) { SilentAfter = FrameProxy.ConsumeOk };
        _scene.Address = proxy.Address;
        StreamFetcherOptions options = _scene.Fetch();
        options.RequestTimeout = TimeSpan.FromSeconds(3);
        await _scene.FetchAsync(2, options);
        Assert.Null(proxy.SilentAfter);
        Eventually.True(() => proxy.OpenConnections == 0, "also the silent connection is closed", BridgeScene.Deadline);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>
    /// The last message of a full window waits longer for its confirm than any single one needs. As long as confirms come, the
    /// broker is there; the forwarder gave up its connection again and again, and said that nothing was confirmed.
    /// The window takes ten seconds, and the limit is six: with one second, a busy machine opened the connection too late.
    /// </summary>
    [Fact]
    public Task RunOnce_NetworkIsSlow_KeepsItsConnection() => Tries.OneSucceedsAsync(async () =>
    {
        using BridgeScene scene = new(broker);
        using FrameProxy proxy = new(broker.Node.Port) { BytesPerSecond = 64_000 };
        scene.Address = proxy.Address;
        scene.Produce(Enumerable.Repeat(new string('x', 16_000), 40));
        StreamForwarderOptions options = scene.Forward();
        (options.PackLength, options.RequestTimeout) = (16_000, TimeSpan.FromSeconds(6));
        StreamForwarder forwarder = await BridgeScene.OnceAsync(options);
        Assert.Equal(1, forwarder.GetStatus().Attempts);
        Assert.Equal(40, forwarder.GetStatus().Messages);
    });

    /// <summary>
    /// A broker gives up a channel that leaves a delivered message unacknowledged for half an hour. Only the token of the lock is
    /// kept longer, and given back in time.
    /// </summary>
    [Fact]
    public async Task Run_Idle_LeavesNothingUnacknowledgedButTheToken()
    {
        await _scene.PublishAsync(Enumerable.Range(0, 150).Select(number => new[] { (byte)number }));
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Address = proxy.Address;
        _scene.Produce("one");
        using CancellationTokenSource stop = new();
        StreamForwarder forwarder = new(_scene.Forward());
        Task forwarding = forwarder.RunAsync(stop.Token);
        Eventually.True(() => forwarder.GetStatus().Messages == 1 || forwarding.IsCompleted, "it runs", BridgeScene.Deadline);
        Eventually.True(() => proxy.OpenDeliveries == 1, "only the token is left");
        Assert.True(proxy.Deliveries > 150);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => forwarding);
    }

    /// <summary>
    /// Each attempt ran for a moment, and each moment ended the trouble: a health check never heard of a lasting one.
    /// </summary>
    [Fact]
    public async Task Run_EachAttemptFailsAsSoonAsItRuns_IsOneTrouble()
    {
        // The marker is taken, and the first envelope after it is not.
        using FrameProxy proxy = new(broker.Node.Port) { Refuses = number => number % 2 == 1 };
        _scene.Address = proxy.Address;
        _scene.Produce("one");
        StreamForwarderOptions options = _scene.Forward();
        options.Lock = StreamLockKind.Classic;
        // An attempt that ran for longer has ended the trouble; on a slow machine one runs for half a second before it fails.
        options.BackOffMax = TimeSpan.FromSeconds(30);
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource stop = new();
        Task running = forwarder.RunAsync(stop.Token);
        HashSet<DateTimeOffset> troubles = [];
        Eventually.True(
            () =>
            {
                BridgeStatus status = forwarder.GetStatus();
                if (status is { State: BridgeState.BackingOff, TroubleSince: { } since })
                    troubles.Add(since);
                return proxy.Refusals >= 5 || running.IsCompleted;
            },
            "attempts fail", BridgeScene.Deadline);
        Assert.Single(troubles);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
    }

    /// <summary>A few messages do not fill the interval after which a fetcher acknowledges; time does.</summary>
    [Fact]
    public async Task Fetch_Idle_LeavesNothingUnacknowledged()
    {
        _scene.Produce("one", "two");
        await BridgeScene.OnceAsync(_scene.Forward());
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Address = proxy.Address;
        using CancellationTokenSource stop = new();
        Task fetching = new StreamFetcher(_scene.Fetch()).RunAsync(stop.Token);
        Eventually.True(() => proxy.Acks > 0 || fetching.IsCompleted, "it acknowledges");
        Assert.True(proxy.Deliveries >= 3);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>Nothing of an attempt stays open when nobody answers.</summary>
    [Fact]
    public async Task Run_NobodyAnswers_EachAttemptClosesItsConnection()
    {
        Assert.SkipWhen(MappedFileQueues.Demo.Brokers.BrokerCluster.Obstacle is not null, "RabbitMQ is not installed");
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        int opened = 0;
        int closed = 0;
        _ = Task.Run(async () =>
        {
            while (true)
            {
                TcpClient client = await listener.AcceptTcpClientAsync();
                Interlocked.Increment(ref opened);
                _ = client.GetStream().CopyToAsync(Stream.Null).ContinueWith(
                    _ => Interlocked.Increment(ref closed), TaskScheduler.Default);
            }
        });
        _scene.Produce("one");
        _scene.Address = $"amqp://127.0.0.1:{((IPEndPoint)listener.LocalEndpoint).Port}";
        StreamForwarderOptions options = _scene.Forward();
        options.RequestTimeout = TimeSpan.FromMilliseconds(50);
        (options.BackOffMin, options.BackOffMax) = (TimeSpan.FromMilliseconds(1), TimeSpan.FromMilliseconds(2));
        using CancellationTokenSource stop = new();
        StreamForwarder forwarder = new(options);
        Task running = forwarder.RunAsync(stop.Token);
        // An attempt that a busy machine gave no time may end before it has connected.
        Eventually.True(() => Volatile.Read(ref opened) >= 15 || running.IsCompleted, "it tries", BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        Assert.Equal(BridgeState.Stopped, forwarder.GetStatus().State);
        Assert.True(opened >= 15);
        Eventually.Equal(0, () => opened - closed);
    }
}

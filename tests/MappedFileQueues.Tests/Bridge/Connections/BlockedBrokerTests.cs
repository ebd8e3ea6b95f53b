using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>Brokers without memory or disk: they are there, and take nothing.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BlockedBrokerTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// A forwarder took a broker that confirmed nothing for a dead one, connected again and again, and nobody heard of the reason
    /// that the broker had told.
    /// </summary>
    [Fact]
    public async Task Run_BrokerBlocks_KeepsItsConnectionAndTellsTheReason()
    {
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Produce("one");
        ServiceCollection services = new();
        services.AddLogging();
        services.AddMappedFileQueueForwarder("orders", options =>
        {
            _scene.Fill(options, _scene.SourcePath, proxy.Address);
            // The broker hears no heartbeats while the proxy takes nothing, and must not take that for a silence.
            (options.RequestTimeout, options.Heartbeat) = (TimeSpan.FromSeconds(6), TimeSpan.FromMinutes(1));
        });
        services.AddHealthChecks().AddMappedFileQueueBridges();
        await using ServiceProvider provider = services.BuildServiceProvider();
        HealthCheckService health = provider.GetRequiredService<HealthCheckService>();
        IHostedService service = Assert.Single(BridgeScene.BridgesIn(provider));
        await service.StartAsync(CancellationToken.None);
        await UntilAsync(health, status => status.Messages == 1);

        await proxy.BlockAsync("low on memory");
        _scene.Produce("two");
        BridgeStatus blocked = await UntilAsync(health, status => status.State == BridgeState.Blocked);
        await Task.Delay(TimeSpan.FromSeconds(14));

        HealthReport report = await health.CheckHealthAsync();
        Assert.Equal(HealthStatus.Degraded, report.Status);
        Assert.Contains("low on memory", report.Entries.Values.Single().Description, StringComparison.Ordinal);
        Assert.Equal((BridgeState.Blocked, 1L), (StatusIn(report).State, StatusIn(report).Messages));
        Assert.NotNull(StatusIn(report).TroubleSince);
        await proxy.BlockAsync(null);
        BridgeStatus after = await UntilAsync(health, status => status.Messages == 2);
        Assert.Equal((BridgeState.Running, blocked.Attempts), (after.State, after.Attempts));
        Assert.Null(after.TroubleSince);
        await service.StopAsync(CancellationToken.None);
        await _scene.FetchAsync(2);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>
    /// A broker that has less memory than it wants takes the first message, and then neither messages nor questions.
    /// </summary>
    [Fact]
    public async Task Run_BrokerHasTooLittleMemory_WaitsOnOneConnection()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        using BrokerCluster cluster = BrokerCluster.Start(
            Path.Combine(_scene.Root, "small"), 1, "vm_memory_high_watermark.absolute = 1MB\n");
        _scene.Produce("one");
        _scene.Address = cluster.Nodes[0].Address;
        StreamForwarderOptions options = _scene.Forward();
        // Its heartbeats continue; without them the connection would be taken for a silent one.
        (options.RequestTimeout, options.Heartbeat) = (TimeSpan.FromSeconds(6), TimeSpan.FromSeconds(4));
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource stop = new();
        Task forwarding = forwarder.RunAsync(stop.Token);
        await Tries.OneSucceedsAsync(async () =>
        {
            Eventually.True(
                () => forwarder.GetStatus().State == BridgeState.Blocked || forwarding.IsCompleted, "it is blocked",
                BridgeScene.Deadline);
            long attempts = forwarder.GetStatus().Attempts;

            await Task.Delay(3 * options.RequestTimeout);

            BridgeStatus status = forwarder.GetStatus();
            Assert.Equal((BridgeState.Blocked, attempts), (status.State, status.Attempts));
            Assert.Contains("memory", status.LastError!, StringComparison.Ordinal);
        });
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => forwarding);
        Assert.Equal(BridgeState.Stopped, forwarder.GetStatus().State);
    }

    private static BridgeStatus StatusIn(HealthReport report) => (BridgeStatus)report.Entries.Values.Single().Data["orders"];

    private static async Task<BridgeStatus> UntilAsync(HealthCheckService health, Func<BridgeStatus, bool> condition)
    {
        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        while (true)
        {
            BridgeStatus status = StatusIn(await health.CheckHealthAsync(limit.Token));
            if (condition(status))
                return status;
            await Task.Delay(5, limit.Token);
        }
    }
}

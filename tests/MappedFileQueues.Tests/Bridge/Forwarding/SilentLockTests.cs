using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>A lock whose queue the broker has lost and does not say so.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class SilentLockTests(BrokerFixture broker) : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(3);

    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The broker died within a second of making the lock's queue. Afterwards it calls that queue running and answers nobody who
    /// consumes from it (3.10.8, 5 of 5). The forwarder connected again and again, for good, and its log said that the broker did
    /// not answer, and not to what.
    /// </summary>
    [Fact]
    public async Task RunOnce_BrokerDiedAsItMadeTheLock_MakesItAnew()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        _scene.Produce("one");
        using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(_scene.Root, "own"), 1);
        BrokerNode node = cluster.Nodes[0];
        _scene.Address = node.Address;
        await MakeLockAndKillAsync(node);
        StreamForwarderOptions options = _scene.Forward();
        // The broker takes 5 s to delete such a queue.
        (options.Lock, options.RequestTimeout) = (StreamLockKind.Quorum, TimeSpan.FromSeconds(8));
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource stop = new(s_deadline);
        HashSet<string> errors = [];

        Task forwarding = forwarder.RunOnceAsync(stop.Token);

        Eventually.True(
            () =>
            {
                errors.Add(forwarder.GetStatus().LastError ?? "");
                return forwarding.IsCompleted;
            },
            "it forwards",
            s_deadline);
        await forwarding;
        Assert.Equal(1, forwarder.GetStatus().Messages);
        string silence = $"step=consume from the lock's queue, queue={_scene.LockName()}.";
        Assert.Contains(errors, error => error.Contains(silence, StringComparison.Ordinal));
    }

    private async Task MakeLockAndKillAsync(BrokerNode node)
    {
        ConnectionFactory factory = new() { Uri = new Uri(node.Address), AutomaticRecoveryEnabled = false };
        IConnection connection = await factory.CreateConnectionAsync();
        IChannel channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(
            _scene.LockName(), durable: true, exclusive: false, autoDelete: false,
            new Dictionary<string, object?>
            {
                ["x-queue-type"] = "quorum",
                ["x-single-active-consumer"] = true,
                ["x-max-length"] = 1,
            });
        node.Kill();
        await connection.CloseAsync(Constants.ReplySuccess, "", TimeSpan.FromSeconds(1), abort: true);
        node.Start();
        node.WaitUntilReady();
    }
}

using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>A lock whose queue the broker has lost and does not say so.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class SilentLockTests(BrokerFixture broker)
{
    /// <summary>
    /// The broker died within a second of making the lock's queue. Afterwards it calls that queue running and answers nobody who
    /// consumes from it (3.10.8, 5 of 5). The forwarder connected again and again, for good, and its log said that the broker did
    /// not answer, and not to what.
    /// </summary>
    [Fact]
    public async Task RunOnce_BrokerDiedAsItMadeTheLock_MakesItAnew()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        int tries = 0;
        while (!await IsSilenceOvercomeAsync())
            Assert.True(++tries < 5, "A broker never lost the queue in silence.");
    }

    /// <summary>
    /// Whether the forwarder met the silence; it forwards in any case. On a busy machine the kill may come too late.
    /// </summary>
    private async Task<bool> IsSilenceOvercomeAsync()
    {
        using BridgeScene scene = new(broker);
        scene.Produce("one");
        using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(scene.Root, "own"), 1);
        BrokerNode node = cluster.Nodes[0];
        scene.Address = node.Address;
        await MakeLockAndKillAsync(node, scene.LockName());
        StreamForwarderOptions options = scene.Forward();
        // The broker takes 5 s to delete such a queue.
        (options.Lock, options.RequestTimeout) = (StreamLockKind.Quorum, TimeSpan.FromSeconds(8));
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        HashSet<string> errors = [];

        Task forwarding = forwarder.RunOnceAsync(stop.Token);

        Eventually.True(
            () =>
            {
                errors.Add(forwarder.GetStatus().LastError ?? "");
                return forwarding.IsCompleted;
            },
            "it forwards",
            BridgeScene.Deadline);
        await forwarding;
        Assert.Equal(1, forwarder.GetStatus().Messages);
        string silence = $"step=consume from the lock's queue, queue={scene.LockName()}.";
        return errors.Any(error => error.Contains(silence, StringComparison.Ordinal));
    }

    private static async Task MakeLockAndKillAsync(BrokerNode node, string lockName)
    {
        ConnectionFactory factory = new() { Uri = new Uri(node.Address), AutomaticRecoveryEnabled = false };
        IConnection connection = await factory.CreateConnectionAsync();
        IChannel channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(
            lockName, durable: true, exclusive: false, autoDelete: false,
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

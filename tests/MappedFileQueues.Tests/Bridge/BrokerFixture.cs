using MappedFileQueues.Tool.Bridge.Brokers;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>One broker for all tests that need one. They run one after the other; each has a stream of its own.</summary>
public sealed class BrokerFixture : IDisposable
{
    private readonly Lazy<BrokerCluster> _cluster;
    private readonly TempStore _temp = new();

    public BrokerFixture() =>
        _cluster = new Lazy<BrokerCluster>(() => BrokerCluster.Start(Path.Combine(_temp.Root, "broker"), 1));

    /// <summary>The running broker; skips the test where RabbitMQ is not installed.</summary>
    internal BrokerNode Node
    {
        get
        {
            Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
            BrokerNode node = _cluster.Value.Nodes[0];
            if (!node.IsRunning)
                node.Start();
            node.WaitUntilReady();
            return node;
        }
    }

    public void Dispose()
    {
        if (_cluster.IsValueCreated)
            _cluster.Value.Dispose();
        _temp.Dispose();
    }
}

/// <summary>The tests that share the broker.</summary>
[CollectionDefinition(Name)]
public sealed class BrokerCollection : ICollectionFixture<BrokerFixture>
{
    public const string Name = "broker";
}

using MappedFileQueues.RabbitMQ;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>Queues that have the stream's name and are none.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class StreamQueueTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The broker names one difference only: a transient queue and one that deletes itself were taken for the stream, and an
    /// exclusive one was waited for for ever.
    /// </summary>
    [Theory]
    [InlineData(false, false, false)]
    [InlineData(false, false, true)]
    [InlineData(false, true, false)]
    [InlineData(true, true, false)]
    [InlineData(true, false, true)]
    [InlineData(true, false, false, "quorum")]
    [InlineData(true, false, false, "classic")]
    public async Task Run_QueueOfTheNameIsNoStream_BothSidesStopAndLeaveNothing(
        bool isDurable, bool isExclusive, bool deletesItself, string? type = null)
    {
        await using IConnection connection = await new ConnectionFactory { Uri = new Uri(broker.Node.Address) }
            .CreateConnectionAsync();
        await using IChannel channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(
            _scene.Stream, isDurable, isExclusive, deletesItself,
            type is null ? null : new Dictionary<string, object?> { ["x-queue-type"] = type });
        _scene.Produce("one");
        using CancellationTokenSource limit = new(BridgeScene.Deadline);

        BridgeException error = await Assert.ThrowsAsync<BridgeException>(
            () => new StreamForwarder(_scene.Forward()).RunOnceAsync(limit.Token));

        Assert.Equal(BridgeFault.NoStream, error.Fault);
        Assert.Contains(_scene.Stream, error.Message, StringComparison.Ordinal);
        Assert.Equal(BridgeFault.NoStream, (await _scene.FetchStopsAsync()).Fault);
        Assert.Equal(0u, await channel.MessageCountAsync(_scene.Stream));
    }

    /// <summary>A stream whose settings are others than the forwarder would give it stays as it is.</summary>
    [Fact]
    public async Task Run_StreamHasOtherSettings_IsUsed()
    {
        await _scene.WithChannelAsync(channel => channel.QueueDeclareAsync(
            _scene.Stream, durable: true, exclusive: false, autoDelete: false,
            new Dictionary<string, object?> { ["x-queue-type"] = "stream", ["x-max-age"] = "7D" }));
        _scene.Produce("one");
        StreamForwarderOptions options = _scene.Forward();
        options.StreamMaxAge = TimeSpan.FromDays(1);

        await BridgeScene.OnceAsync(options);
        await _scene.FetchAsync(1);

        Assert.Equal(["one"], _scene.Received());
    }
}

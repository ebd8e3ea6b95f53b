using MappedFileQueues.RabbitMQ;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>The lock between forwarders, and who else is in the way.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeLockTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The token went out on the channel that publishes. Two of three brokers were killed, the stream's leader changed, and the
    /// broker took the first envelope after that for a double: it confirmed it, and the stream had a hole (3.10.8, 42nd kill).
    /// </summary>
    [Fact]
    public async Task Forward_LockNeedsAToken_PublishesItOnAChannelOfItsOwn()
    {
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Address = proxy.Address;
        _scene.Produce("one");
        StreamForwarderOptions options = _scene.Forward();
        options.Lock = StreamLockKind.Quorum;

        await BridgeScene.OnceAsync(options);

        Assert.Equal(
            [_scene.Stream, _scene.LockName()], proxy.PublishedTo.Select(Assert.Single).OrderDescending(StringComparer.Ordinal));
    }

    /// <summary>
    /// Brokers take tokens away: a policy with a time to live, an operator who purges, and from RabbitMQ 4 on a quorum queue
    /// whose message came back twenty times, as after three hours of a quiet holder. The waiter had put one there when it came,
    /// and waited for ever.
    /// </summary>
    [Fact]
    public async Task Run_TokenIsLostWhileItStandsBy_TakesOver()
    {
        _scene.Produce("one");
        string name = _scene.LockName();
        StreamForwarder waiting = new(_scene.Forward());
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        Task waits = Task.CompletedTask;
        await _scene.WithChannelAsync(async channel =>
        {
            await channel.QueueDeclareAsync(
                name, durable: true, exclusive: false, autoDelete: false,
                new Dictionary<string, object?>
                {
                    ["x-queue-type"] = "quorum",
                    ["x-single-active-consumer"] = true,
                    ["x-max-length"] = 1,
                });
            AsyncEventingBasicConsumer holder = new(channel);
            TaskCompletionSource<ulong> token = new();
            holder.ReceivedAsync += (_, delivery) =>
            {
                token.TrySetResult(delivery.DeliveryTag);
                return Task.CompletedTask;
            };
            await channel.BasicQosAsync(0, 1, global: false);
            await channel.BasicConsumeAsync(name, autoAck: false, holder);
            await channel.BasicPublishAsync("", name, default);
            ulong tag = await token.Task.WaitAsync(BridgeScene.Deadline);
            waits = waiting.RunAsync(stop.Token);
            Eventually.True(() => waiting.GetStatus().State == BridgeState.Standby, "it stands by", BridgeScene.Deadline);
            await channel.QueuePurgeAsync(name);
            await channel.BasicAckAsync(tag, multiple: false);
        });

        Eventually.True(() => waiting.GetStatus().Messages == 1 || waits.IsCompleted, "it takes over");
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);
    }

    /// <summary>
    /// Reading back to the stream's end acknowledged the token together with what was read. Ten minutes later the holder gave
    /// back what it did not have any more, and the broker ended its channel.
    /// </summary>
    [Fact]
    public async Task RunOnce_ReadsFarBack_KeepsTheToken()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        await _scene.PublishAsync(Enumerable.Range(0, 300).Select(number => new[] { (byte)number }));
        _scene.Produce("two");
        await BridgeScene.OnceAsync(_scene.Forward());
        uint tokens = 0;
        await _scene.WithChannelAsync(async channel =>
        {
            // Comes back when the broker has noticed the end of the channel.
            for (int look = 0; look < 3000 && (tokens = await channel.MessageCountAsync(_scene.LockName())) == 0; look++)
                await Task.Delay(20);
        });
        Assert.Equal(1u, tokens);
    }

    /// <summary>
    /// Two instances of an application on one machine: the store's own lock keeps the second one away. It stands by as it would
    /// behind the broker's lock, and is no case for a health check.
    /// </summary>
    [Fact]
    public async Task Run_SameConsumer_StandsByAndTakesOver()
    {
        _scene.Produce("one");
        using CancellationTokenSource first = new(BridgeScene.Deadline);
        StreamForwarder holder = new(_scene.Forward());
        Task holding = holder.RunAsync(first.Token);
        Eventually.True(() => holder.GetStatus().Messages == 1, "the first forwarder runs", BridgeScene.Deadline);

        using CancellationTokenSource second = new(BridgeScene.Deadline);
        StreamForwarder waiting = new(_scene.Forward());
        Task waits = waiting.RunAsync(second.Token);
        Eventually.True(() => waiting.GetStatus().Attempts > 2, "the second one has tried", BridgeScene.Deadline);
        Assert.Equal(BridgeState.Standby, waiting.GetStatus().State);
        Assert.Null(waiting.GetStatus().TroubleSince);
        await Assert.ThrowsAsync<InvalidOperationException>(() => waiting.RunOnceAsync(second.Token));

        await first.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => holding);
        _scene.Produce("two");
        Eventually.True(() => waiting.GetStatus().Messages == 1, "the second one has taken over", BridgeScene.Deadline);
        await second.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);
        await _scene.FetchAsync(2);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>The same on the other side.</summary>
    [Fact]
    public async Task Fetch_TwoIntoOneStore_OneStandsBy()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        StreamFetcher holder = new(_scene.Fetch());
        Task holding = holder.RunAsync(stop.Token);
        Eventually.True(() => holder.GetStatus().Messages == 1, "the first one has fetched", BridgeScene.Deadline);
        StreamFetcher waiting = new(_scene.Fetch());
        Task waits = waiting.RunAsync(stop.Token);
        Eventually.True(() => waiting.GetStatus().State == BridgeState.Standby, "the second one stands by", BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => holding);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);
        Assert.Equal(["one"], _scene.Received());
    }
}

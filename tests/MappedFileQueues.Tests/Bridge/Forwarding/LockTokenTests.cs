using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.RabbitMQ;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>The token of the lock, which the broker does not leave with anybody for ever.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class LockTokenTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The token was given back only by a forwarder that had nothing to do. Under a producer that never rests, the broker ended
    /// the channel after half an hour, and again after each half an hour. A waiter must not get the lock by it.
    /// </summary>
    [Fact]
    public async Task Run_NeverIdle_GivesTheTokenBackAndKeepsTheLock()
    {
        string[] texts = [.. Enumerable.Range(0, 2000).Select(number => number.ToString(CultureInfo.InvariantCulture))];
        _scene.Produce(texts);
        StreamForwarderOptions options = _scene.Forward();
        // One envelope at a time for each record: there is something to do all the time.
        (options.Window, options.PackLength, options.TokenAgeMax) = (1, 0, TimeSpan.FromMilliseconds(1));
        StreamForwarderOptions other = _scene.Forward();
        other.ConsumerName = "other";
        StreamForwarder waiting = new(other);
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        StreamForwarder forwarder = new(options);
        Task forwarding = forwarder.RunOnceAsync(stop.Token);
        Eventually.True(() => forwarder.GetStatus().Messages > 0, "it has the lock", BridgeScene.Deadline);
        Task waits = waiting.RunAsync(stop.Token);

        Eventually.True(
            () => forwarder.GetStatus().Messages == texts.Length || forwarding.IsCompleted, "all is there", BridgeScene.Deadline);
        long taken = waiting.GetStatus().Messages;
        await forwarding;
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);

        Assert.Equal(0, taken);
        Assert.Equal(1, forwarder.GetStatus().Attempts);
        // Both forwarders give it back when they end. In between it comes back after each write to the quorum queue: about a
        // hundred times, a dozen on a busy disk. With an age of 50 ms it was too few for the test to tell, on a busy machine.
        Assert.InRange(await CountReturnsAsync(), 4, int.MaxValue);
        await _scene.FetchAsync(texts.Length);
        Assert.Equal(texts, _scene.Received());
    }

    /// <summary>
    /// Nodes of a cluster that lose each other: the queue takes its active consumer for lost, and makes the next one active. That
    /// one forwarded, and the first one too, until its connection ended some day. All of it was twice in the stream.
    /// </summary>
    [Fact]
    public async Task Run_BrokerGivesTheLockAway_TheOldHolderEnds()
    {
        _scene.Produce("one");
        StreamForwarderOptions options = _scene.Forward();
        (options.Lock, options.TokenAgeMax) = (StreamLockKind.Quorum, TimeSpan.FromSeconds(1));
        options.RequestTimeout = TimeSpan.FromSeconds(5);
        StreamForwarder holder = new(options);
        StreamForwarderOptions other = _scene.Forward();
        (other.Lock, other.ConsumerName) = (StreamLockKind.Quorum, "other");
        StreamForwarder waiting = new(other);
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        Task holding = holder.RunAsync(stop.Token);
        Eventually.True(() => holder.GetStatus().Messages == 1, "it has the lock", BridgeScene.Deadline);
        Task waits = waiting.RunAsync(stop.Token);
        Eventually.True(() => waiting.GetStatus().State == BridgeState.Standby, "the other one stands by", BridgeScene.Deadline);

        await LoseHolderAsync();

        Eventually.True(
            () => waiting.GetStatus().State == BridgeState.Running, "the other one has the lock", BridgeScene.Deadline);
        Eventually.True(
            () => holder.GetStatus() is { Attempts: > 1, State: BridgeState.Standby }, "the first one stands by",
            BridgeScene.Deadline);
        _scene.Produce("two");
        Eventually.True(() => waiting.GetStatus().Messages == 1, "the other one forwards", BridgeScene.Deadline);
        Assert.Equal(1, holder.GetStatus().Messages);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => holding);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);
        await _scene.FetchAsync(2);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>
    /// Tells the lock's queue what it hears when the node of its active consumer cannot be reached. On a machine that is busy
    /// with other things the queue has no active consumer for a moment: then it is asked again.
    /// </summary>
    private async Task LoseHolderAsync()
    {
        using Process control = broker.Node.StartEvaluation(
            $"Q = {{'%2F_{_scene.LockName()}', node()}}, "
            + "Find = fun Again(N) -> case ra:local_query(Q, fun rabbit_fifo:query_single_active_consumer/1) of "
            + "{ok, {_, {value, {_, P}}}, _} -> P; _ when N > 0 -> timer:sleep(100), Again(N - 1) end end, "
            + "P = Find(200), element(1, ra:process_command(Q, {down, P, noconnection})).");
        Task<string> complaint = control.StandardError.ReadToEndAsync();
        string said = await control.StandardOutput.ReadToEndAsync();
        Assert.True(said.Trim() == "ok", $"{said} {await complaint}");
    }

    /// <summary>How often the token has come back to its queue.</summary>
    private async Task<long> CountReturnsAsync()
    {
        long returns = 0;
        await _scene.WithChannelAsync(async channel =>
        {
            TaskCompletionSource<long> count = new();
            AsyncEventingBasicConsumer consumer = new(channel);
            consumer.ReceivedAsync += (_, delivery) =>
            {
                object? value = null;
                delivery.BasicProperties.Headers?.TryGetValue("x-delivery-count", out value);
                count.TrySetResult(Convert.ToInt64(value, CultureInfo.InvariantCulture));
                return Task.CompletedTask;
            };
            await channel.BasicConsumeAsync(_scene.LockName(), autoAck: false, consumer);
            returns = await count.Task.WaitAsync(BridgeScene.Deadline);
        });
        return returns;
    }
}

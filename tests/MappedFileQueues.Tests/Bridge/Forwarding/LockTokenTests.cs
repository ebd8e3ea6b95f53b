using System.Globalization;
using MappedFileQueues.RabbitMQ;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>The token of the lock, which the broker does not leave with anybody for ever.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
public sealed class LockTokenTests(BrokerFixture broker) : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(1);

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
        using CancellationTokenSource stop = new(s_deadline);
        StreamForwarder forwarder = new(options);
        Task forwarding = forwarder.RunOnceAsync(stop.Token);
        Eventually.True(() => forwarder.GetStatus().Messages > 0, "it has the lock", s_deadline);
        Task waits = waiting.RunAsync(stop.Token);

        Eventually.True(
            () => forwarder.GetStatus().Messages == texts.Length || forwarding.IsCompleted, "all is there", s_deadline);
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
            using MappedFileReader reader = MappedFileReader.Open(_scene.SourcePath);
            await channel.BasicConsumeAsync(
                $"mfq.lock.{_scene.Stream}.{reader.GetInfo().StoreId:N}", autoAck: false, consumer);
            returns = await count.Task.WaitAsync(s_deadline);
        });
        return returns;
    }
}

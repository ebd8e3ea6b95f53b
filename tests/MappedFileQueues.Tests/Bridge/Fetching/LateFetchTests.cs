using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tests.Hosting;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge.Fetching;

/// <summary>Fetchers that come after the stream's retention.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class LateFetchTests(BrokerFixture broker) : IDisposable
{
    private const int RecordLength = 50_000;
    private const int RangeLength = 60_000;

    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The broker begins with what it still has, and says nothing. A first fetch took that for the whole stream, and so did a
    /// fetcher that had been there before if what came next was of a source that it did not know.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Fetch_RetentionWasBefore_StopsAndGoesOnOnlyWhenTold(bool wasThereBefore)
    {
        await MakeStreamAsync();
        if (wasThereBefore)
        {
            await PublishAsync(BridgeScene.Envelope(Guid.NewGuid(), 1, 0, 64, "before"));
            await _scene.FetchAsync(1);
        }

        int before = _scene.Received().Count;
        await PublishManyAsync();

        BridgeException error = await _scene.FetchStopsAsync();
        Assert.Equal(BridgeFault.Gap, error.Fault);
        Assert.Contains("source offsets missing=up to ", error.Message, StringComparison.Ordinal);
        Assert.Equal(before, _scene.Received().Count);

        using CollectedLog log = new();
        using LoggerFactory loggers = new([log]);
        StreamFetcherOptions options = _scene.Fetch();
        options.OnSourceChange = SourceChangePolicy.Continue;
        StreamFetcher fetcher = new(options, loggers.CreateLogger<StreamFetcher>());
        using CancellationTokenSource stop = new();
        Task fetching = fetcher.RunAsync(stop.Token);
        // What the broker delivers is stored at once; "running" comes with its answer, which may be read a moment later.
        Eventually.True(
            () => (_scene.Received() is [.., "last"] && fetcher.GetStatus().State == BridgeState.Running) || fetching.IsFaulted,
            "the last message arrives", TimeSpan.FromMinutes(1));
        Assert.Equal(BridgeState.Running, fetcher.GetStatus().State);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
        string hole = Assert.Single(
            log.Entries.Select(entry => entry.Text), text => text.Contains("missing", StringComparison.Ordinal));
        int left = _scene.Received().Count - before - 1;
        string count = FormattableString.Invariant($"source offsets missing=up to {(30 - left) * RangeLength},");
        Assert.Contains(count, hole, StringComparison.Ordinal);
    }

    /// <summary>A stream that keeps little.</summary>
    private Task MakeStreamAsync() => _scene.WithChannelAsync(channel => channel.QueueDeclareAsync(
        _scene.Stream, durable: true, exclusive: false, autoDelete: false,
        new Dictionary<string, object?>
        {
            ["x-queue-type"] = "stream",
            ["x-max-length-bytes"] = 200_000,
            ["x-stream-max-segment-size-bytes"] = 100_000,
        }));

    /// <summary>Thirty envelopes of one source, of which retention removes the most, and a last one.</summary>
    private Task PublishManyAsync()
    {
        Guid source = Guid.NewGuid();
        return PublishAsync([.. Enumerable.Range(0, 31).Select(number => BridgeScene.Envelope(
            source, 1, number * RangeLength, (number + 1) * RangeLength,
            number == 30 ? "last" : new string('x', RecordLength)))]);
    }

    private Task PublishAsync(params byte[][] bodies) => _scene.WithChannelAsync(async channel =>
    {
        foreach (byte[] body in bodies)
            await channel.BasicPublishAsync("", _scene.Stream, body);
    });
}

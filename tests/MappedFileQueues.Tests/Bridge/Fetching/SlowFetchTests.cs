using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Tests.Bridge.Fetching;

/// <summary>Fetchers behind a slow network.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class SlowFetchTests(BrokerFixture broker)
{
    /// <summary>
    /// A record takes several times the limit of a wait. Its bytes came all the time, and the fetcher took that for silence: it
    /// asked for the stream's end behind them, got no answer in time, and began anew with the same record, for ever. A relay may
    /// also bring them in pieces that are no longer than what a quiet broker sends.
    /// </summary>
    [Theory]
    [InlineData(900_000, 32_000)]
    [InlineData(400_000, 400)]
    public Task Fetch_RecordTakesLongerThanTheLimit_Arrives(int length, int piece) =>
        Tries.OneSucceedsAsync(() => FetchSlowlyAsync(length, piece));

    /// <summary>The record takes 16 s, four times the limit: with one of 1.5 s, a busy machine was silent for as long.</summary>
    private async Task FetchSlowlyAsync(int length, int piece)
    {
        using BridgeScene scene = new(broker) { SegmentSize = 4 << 20 };
        scene.Produce("first", new string('x', length), "last");
        await BridgeScene.OnceAsync(scene.Forward());
        using FrameProxy proxy = new(broker.Node.Port) { BytesPerSecondBack = length / 16, PieceLengthBack = piece };
        scene.Address = proxy.Address;
        StreamFetcherOptions options = scene.Fetch();
        options.RequestTimeout = TimeSpan.FromSeconds(4);
        StreamFetcher fetcher = new(options);
        using CancellationTokenSource stop = new();
        Task fetching = fetcher.RunAsync(stop.Token);

        Eventually.True(
            () => fetcher.GetStatus() is { Messages: 3 } or { LastError: not null } || fetching.IsCompleted, "all arrive",
            TimeSpan.FromMinutes(5));

        BridgeStatus status = fetcher.GetStatus();
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
        Assert.Equal((1, null), (status.Attempts, status.LastError));
        Assert.Equal([5, length, 4], scene.Received().Select(text => text.Length));
    }
}

using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Tests.Bridge.Fetching;

/// <summary>Fetchers behind a slow network.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class SlowFetchTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// A record takes several times the limit of a wait. Its bytes came all the time, and the fetcher took that for silence: it
    /// asked for the stream's end behind them, got no answer in time, and began anew with the same record, for ever. A relay may
    /// also bring them in pieces that are no longer than what a quiet broker sends.
    /// </summary>
    [Theory]
    [InlineData(900_000, null)]
    [InlineData(150_000, 400)]
    public async Task Fetch_RecordTakesLongerThanTheLimit_Arrives(int length, int? piece)
    {
        _scene.SegmentSize = 4 << 20;
        _scene.Produce("first", new string('x', length), "last");
        await BridgeScene.OnceAsync(_scene.Forward());
        using FrameProxy proxy = new(broker.Node.Port) { BytesPerSecondBack = length / 6, PieceLengthBack = piece };
        _scene.Address = proxy.Address;
        StreamFetcherOptions options = _scene.Fetch();
        options.RequestTimeout = TimeSpan.FromSeconds(1.5);
        StreamFetcher fetcher = new(options);
        using CancellationTokenSource stop = new();
        Task fetching = fetcher.RunAsync(stop.Token);

        Eventually.True(
            () => fetcher.GetStatus() is { Messages: 3 } or { LastError: not null } || fetching.IsCompleted, "all arrive",
            TimeSpan.FromMinutes(1));

        Assert.Equal((1, null), (fetcher.GetStatus().Attempts, fetcher.GetStatus().LastError));
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
        Assert.Equal([5, length, 4], _scene.Received().Select(text => text.Length));
    }
}

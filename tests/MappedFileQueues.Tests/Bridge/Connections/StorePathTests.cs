using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>Places where no store can ever be. No broker is needed to see that.</summary>
public sealed class StorePathTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>A file in the way does not go by waiting; the bridge tried for ever, and was called without its broker.</summary>
    [Theory]
    [InlineData("file")]
    [InlineData("file/store")]
    [InlineData("file/a/store")]
    public async Task Run_StorePathLeadsToAFile_StopsAndSaysSo(string path)
    {
        await File.WriteAllTextAsync(Path.Combine(_temp.Root, "file"), "a file");
        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        StreamForwarder forwarder = new(Fill(new StreamForwarderOptions(), path));
        StreamFetcher fetcher = new(Fill(new StreamFetcherOptions(), path));

        QueueDiskException refused = await Assert.ThrowsAsync<QueueDiskException>(() => forwarder.RunAsync(limit.Token));
        QueueDiskException refusedToo = await Assert.ThrowsAsync<QueueDiskException>(() => fetcher.RunAsync(limit.Token));

        Assert.Contains(_temp.Root, refused.Message, StringComparison.Ordinal);
        Assert.Contains(_temp.Root, refusedToo.Message, StringComparison.Ordinal);
        Assert.Equal(BridgeState.Failed, forwarder.GetStatus().State);
        Assert.Equal(BridgeState.Failed, fetcher.GetStatus().State);
    }

    /// <summary>Nobody listens at the address.</summary>
    private T Fill<T>(T options, string path)
        where T : BridgeOptions
    {
        (options.StorePath, options.Stream, options.Brokers) = (Path.Combine(_temp.Root, path), "s", "amqp://127.0.0.1:1");
        options.BackOffMax = TimeSpan.FromSeconds(1);
        return options;
    }
}

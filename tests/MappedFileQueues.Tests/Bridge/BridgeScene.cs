using System.Text;
using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>A source store, a stream of its own on the shared broker, and a target store.</summary>
public sealed class BridgeScene(BrokerFixture broker) : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(1);

    private readonly TempStore _temp = new();

    /// <summary>A folder that goes with the scene.</summary>
    public string Root => _temp.Root;

    public string SourcePath => _temp.StorePath;

    public string TargetPath => _temp.StorePath + "-target";

    public string Stream { get; } = $"test-{Guid.NewGuid():N}";

    /// <summary>Where the broker is reached; a proxy may take its place.</summary>
    public string? Address { get; set; }

    public StreamForwarderOptions Forward(string? path = null) => Fill(new StreamForwarderOptions(), path ?? SourcePath);

    public StreamFetcherOptions Fetch() => Fill(new StreamFetcherOptions(), TargetPath);

    public T Fill<T>(T options, string path)
        where T : BridgeOptions
    {
        (options.StorePath, options.Stream, options.Brokers) = (path, Stream, Address ?? broker.Node.Address);
        options.BackOffMax = TimeSpan.FromMilliseconds(500);
        return options;
    }

    /// <summary>Forwards what is there.</summary>
    public static async Task<StreamForwarder> OnceAsync(StreamForwarderOptions options)
    {
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource limit = new(s_deadline);
        await forwarder.RunOnceAsync(limit.Token);
        return forwarder;
    }

    /// <summary>Fetches until so many messages are in the target.</summary>
    public async Task FetchAsync(int count, StreamFetcherOptions? options = null)
    {
        using CancellationTokenSource stop = new();
        Task fetching = new StreamFetcher(options ?? Fetch()).RunAsync(stop.Token);
        Eventually.True(() => Received().Count >= count || fetching.IsFaulted, $"{count} messages arrive", s_deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
    }

    /// <summary>Fetches, and expects that it stops by itself.</summary>
    public async Task<BridgeException> FetchStopsAsync(StreamFetcherOptions? options = null)
    {
        using CancellationTokenSource limit = new(s_deadline);
        return await Assert.ThrowsAsync<BridgeException>(
            () => new StreamFetcher(options ?? Fetch()).RunAsync(limit.Token));
    }

    /// <summary>What the target holds, as text.</summary>
    public List<string> Received() => Received(bytes => Encoding.UTF8.GetString(bytes));

    /// <summary>What the target holds.</summary>
    public List<string> Received(Func<byte[], string> read)
    {
        List<string> received = [];
        if (!File.Exists(Path.Combine(TargetPath, "queue.meta")))
            return received;
        using MappedFileReader reader = MappedFileReader.Open(TargetPath);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            received.Add(read(message.ToArray()));
        return received;
    }

    public void Dispose() => _temp.Dispose();
}

using System.Text;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Envelopes;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>A source store, a stream of its own on the shared broker, and a target store.</summary>
public sealed class BridgeScene(BrokerFixture broker) : IDisposable
{
    /// <summary>Only a failing test reaches it: brokers start and answer late beside other work.</summary>
    public static readonly TimeSpan Deadline = TimeSpan.FromMinutes(5);

    private readonly TempStore _temp = new();

    /// <summary>A folder that goes with the scene.</summary>
    public string Root => _temp.Root;

    public string SourcePath => _temp.StorePath;

    public string TargetPath => _temp.StorePath + "-target";

    public string Stream { get; } = $"test-{Guid.NewGuid():N}";

    /// <summary>The length of the source's segments.</summary>
    public long SegmentSize { get; set; } = 1 << 20;

    /// <summary>Where the broker is reached; a proxy may take its place.</summary>
    public string? Address { get; set; }

    public StreamForwarderOptions Forward(string? path = null) => Fill(new StreamForwarderOptions(), path ?? SourcePath);

    public StreamFetcherOptions Fetch() => Fill(new StreamFetcherOptions(), TargetPath);

    public T Fill<T>(T options, string path, string? address = null)
        where T : BridgeOptions
    {
        (options.StorePath, options.Stream, options.Brokers) = (path, Stream, address ?? Address ?? broker.Node.Address);
        options.BackOffMax = TimeSpan.FromMilliseconds(500);
        return options;
    }

    /// <summary>Forwards what is there.</summary>
    public static async Task<StreamForwarder> OnceAsync(StreamForwarderOptions options)
    {
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource limit = new(Deadline);
        await forwarder.RunOnceAsync(limit.Token);
        return forwarder;
    }

    /// <summary>Fetches until so many messages are in the target.</summary>
    public async Task FetchAsync(int count, StreamFetcherOptions? options = null)
    {
        using CancellationTokenSource stop = new();
        Task fetching = new StreamFetcher(options ?? Fetch()).RunAsync(stop.Token);
        Eventually.True(() => Received().Count >= count || fetching.IsFaulted, $"{count} messages arrive", Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
    }

    /// <summary>Fetches, and expects that it stops by itself.</summary>
    public async Task<BridgeException> FetchStopsAsync(StreamFetcherOptions? options = null)
    {
        using CancellationTokenSource limit = new(Deadline);
        return await Assert.ThrowsAsync<BridgeException>(
            () => new StreamFetcher(options ?? Fetch()).RunAsync(limit.Token));
    }

    /// <summary>The bridges among the services of an application.</summary>
    public static BackgroundService[] BridgesIn(IServiceProvider provider) =>
        [.. provider.GetServices<IHostedService>().OfType<BackgroundService>()
            .Where(each => each.GetType().Name == "BridgeService")];

    /// <summary>Does something with a bare client.</summary>
    public async Task WithChannelAsync(Func<IChannel, Task> action)
    {
        ConnectionFactory factory = new() { Uri = new Uri(broker.Node.Address) };
        await using IConnection connection = await factory.CreateConnectionAsync();
        await using IChannel channel = await connection.CreateChannelAsync(
            new CreateChannelOptions(publisherConfirmationsEnabled: true, publisherConfirmationTrackingEnabled: true));
        await action(channel);
    }

    /// <summary>The queue that is the lock of the source's forwarders.</summary>
    public string LockName()
    {
        using MappedFileReader reader = MappedFileReader.Open(SourcePath);
        return $"mfq.lock.{Stream}.{reader.GetInfo().StoreId:N}";
    }

    /// <summary>Deletes the stream.</summary>
    public Task DeleteStreamAsync() => WithChannelAsync(channel => channel.QueueDeleteAsync(Stream));

    /// <summary>Publishes with a bare client into the stream, which is made if it is not there; each message confirmed.</summary>
    public Task PublishAsync(params IEnumerable<byte[]> bodies) => WithChannelAsync(async channel =>
    {
        await channel.QueueDeclareAsync(
            Stream, durable: true, exclusive: false, autoDelete: false,
            new Dictionary<string, object?> { ["x-queue-type"] = "stream" });
        foreach (byte[] body in bodies)
            await channel.BasicPublishAsync("", Stream, body);
    });

    /// <summary>An envelope with one record.</summary>
    public static byte[] Envelope(Guid source, long epoch, long from, long to, string text)
    {
        EnvelopeWriter writer = new(source, Guid.Empty, 1024, isDurable: false);
        writer.Begin(from);
        Assert.True(writer.TryAdd(from, Encoding.UTF8.GetBytes(text)));
        return writer.End(EnvelopeKind.Records, epoch, to).ToArray();
    }

    /// <summary>Appends to the source.</summary>
    public void Produce(params IEnumerable<string> texts)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = SourcePath, SegmentSize = SegmentSize });
        foreach (string text in texts)
            queue.Producer.Produce(Encoding.UTF8.GetBytes(text));
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

using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>Records that are as long as a broker allows by default, on a broker of their own.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class LongRecordTests : IDisposable
{
    private const int SlowLength = 24 << 20;

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(3);

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A record whose confirm cannot come within the limit, because the network is still busy with the record, was sent from its
    /// beginning again and again.
    /// </summary>
    [Fact]
    public async Task RunOnce_RecordTakesLongerThanTheLimit_KeepsItsConnection()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(_temp.Root, "broker"), 1);
        await Tries.OneSucceedsAsync(() => ForwardSlowlyAsync(cluster.Nodes[0].Port));
    }

    private static async Task ForwardSlowlyAsync(int port)
    {
        using TempStore temp = new();
        using FrameProxy proxy = new(port) { BytesPerSecond = SlowLength / 17 };
        StreamForwarderOptions forward = new()
        {
            StorePath = temp.StorePath,
            Stream = $"slow-{Guid.NewGuid():N}",
            Brokers = proxy.Address,
            RequestTimeout = TimeSpan.FromSeconds(7),
        };
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = temp.StorePath, SegmentSize = 128L << 20 }))
            queue.Producer.Produce(new byte[SlowLength]);
        StreamForwarder forwarder = new(forward);
        using CancellationTokenSource limit = new(s_deadline);
        Task forwarding = forwarder.RunOnceAsync(limit.Token);
        Eventually.True(
            () => forwarding.IsCompleted || forwarder.GetStatus().LastError is not null, "it arrives", s_deadline);
        await limit.CancelAsync();
        await Task.WhenAny(forwarding);
        Assert.Equal((1, null), (forwarder.GetStatus().Attempts, forwarder.GetStatus().LastError));
        await forwarding;
        Assert.Equal(1, forwarder.GetStatus().Messages);
    }

    /// <summary>
    /// A forwarder reads the last envelope of its store back to find out where to continue. One that could not come within the
    /// limit kept it from continuing for ever.
    /// </summary>
    [Fact]
    public async Task RunOnce_LastRecordComesBackSlowly_KeepsItsConnection()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(_temp.Root, "broker"), 1);
        StreamForwarderOptions forward = new()
        {
            StorePath = _temp.StorePath,
            Stream = "slow",
            Brokers = cluster.Nodes[0].Address,
            RequestTimeout = TimeSpan.FromSeconds(7),
        };
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 128L << 20 }))
            queue.Producer.Produce(new byte[SlowLength]);
        using CancellationTokenSource limit = new(s_deadline);
        await new StreamForwarder(forward).RunOnceAsync(limit.Token);

        await Tries.OneSucceedsAsync(async () =>
        {
            using FrameProxy proxy = new(cluster.Nodes[0].Port) { BytesPerSecondBack = SlowLength / 17 };
            forward.Brokers = proxy.Address;
            using CancellationTokenSource stop = new(s_deadline);
            StreamForwarder next = new(forward);
            Task forwarding = next.RunOnceAsync(stop.Token);
            Eventually.True(
                () => forwarding.IsCompleted || next.GetStatus().LastError is not null, "it is read back", s_deadline);
            await stop.CancelAsync();
            await Task.WhenAny(forwarding);
            Assert.Equal((1, null), (next.GetStatus().Attempts, next.GetStatus().LastError));
            await forwarding;
            Assert.Equal(0, next.GetStatus().Messages);
        });
    }

    /// <summary>
    /// A broker takes 128 MiB, and the client gives up the connection at the first byte of a message above 64: such a record went
    /// into the stream, and the fetcher tried for ever to get it out.
    /// </summary>
    [Fact]
    public async Task Fetch_RecordAsLongAsTheForwarderSends_Arrives()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(_temp.Root, "broker"), 1);
        StreamForwarderOptions forward = new()
        {
            StorePath = _temp.StorePath,
            Stream = "long",
            Brokers = cluster.Nodes[0].Address,
            RequestTimeout = TimeSpan.FromMinutes(1),
        };
        byte[] record = new byte[forward.RecordLengthMax];
        new Random(1).NextBytes(record);
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 256L << 20 }))
            queue.Producer.Produce(record);
        using CancellationTokenSource limit = new(s_deadline);
        await new StreamForwarder(forward).RunOnceAsync(limit.Token);

        StreamFetcher fetcher = new(new StreamFetcherOptions
        {
            StorePath = _temp.StorePath + "-target",
            Stream = "long",
            Brokers = cluster.Nodes[0].Address,
            SegmentSize = 256L << 20,
            RequestTimeout = TimeSpan.FromMinutes(1),
        });
        using CancellationTokenSource stop = new();
        Task fetching = fetcher.RunAsync(stop.Token);
        Eventually.True(
            () => fetcher.GetStatus() is { Messages: > 0 } or { LastError: not null } || fetching.IsCompleted, "it arrives",
            s_deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);

        Assert.Null(fetcher.GetStatus().LastError);
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath + "-target");
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> fetched));
        Assert.True(fetched.SequenceEqual(record));
    }
}

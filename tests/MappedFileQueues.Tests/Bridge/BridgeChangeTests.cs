using System.Globalization;
using System.Text;
using MappedFileQueues.Format;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Crash.Cuts;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>Power losses at the source and at the target, retention at the broker, and refusals.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeChangeTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>What left was on disk. The cut raises the epoch, and nothing is ambiguous.</summary>
    [Fact]
    public async Task Forward_CutTookNothing_GoesOn()
    {
        using CutStore cut = CutStore.Make(segmentSize: 65536, count: 100);
        StreamForwarderOptions options = _scene.Forward(cut.Store.Path);
        await BridgeScene.OnceAsync(options);

        cut.Recover();
        Assert.True(cut.Info().Epoch > 0);
        Produce(cut.Store.Path, CrashMessage.Make("behind", 0));
        StreamForwarder second = await BridgeScene.OnceAsync(options);

        Assert.Equal(1, second.GetStatus().Messages);
        await _scene.FetchAsync(101);
        Assert.Equal([.. cut.Texts, "behind"], _scene.Received(ReadText));
    }

    /// <summary>
    /// What left was not on disk, and the cut took some of it: the stream knows messages that the store does not have any more.
    /// Both sides say so, and continue when they are told.
    /// </summary>
    [Fact]
    public async Task Forward_CutTookWhatTheStreamHolds_StopsAndGoesOnOnlyWhenTold()
    {
        using CutStore cut = CutStore.Make(segmentSize: 65536, count: 100);
        StreamForwarderOptions options = _scene.Forward(cut.Store.Path);
        options.DurableOnly = false;
        await BridgeScene.OnceAsync(options);
        using (StoreWords words = new(cut.Store.Path))
            words.ResetCheckpoint();
        cut.Damage(50);
        cut.Recover();
        Produce(cut.Store.Path, CrashMessage.Make("other", 0));

        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
        Assert.Equal(BridgeFault.SourceChanged, error.Fault);
        Assert.Contains("of epoch 0", error.Message, StringComparison.Ordinal);

        options.OnSourceChange = SourceChangePolicy.Continue;
        await BridgeScene.OnceAsync(options);
        BridgeException atTarget = await _scene.FetchStopsAsync();
        Assert.Equal(BridgeFault.SourceChanged, atTarget.Fault);
        Assert.Equal(cut.Texts, _scene.Received(ReadText));

        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(101, fetch);
        Assert.Equal([.. cut.Texts, "other"], _scene.Received(ReadText));
    }

    /// <summary>
    /// The cut leaves an older place, and takes of what was appended since then all, some or nothing. What is still there is read
    /// again and compared; the rest is appended.
    /// </summary>
    [Theory]
    [InlineData(40)]
    [InlineData(41)]
    [InlineData(70)]
    [InlineData(100)]
    public async Task Fetch_CutAtTheTarget_FetchesWhatItTook(int left)
    {
        string[] texts = [.. Enumerable.Range(0, 100).Select(number => number.ToString(CultureInfo.InvariantCulture))];
        await MoveAsync(texts[..40], 40);
        string placeFile = Path.Combine(_scene.TargetPath, "bridge.position");
        byte[] place = File.ReadAllBytes(placeFile);
        long flushed;
        using (MappedFileReader reader = MappedFileReader.Open(_scene.TargetPath))
            flushed = reader.GetInfo().PublishedOffset;
        await MoveAsync(texts[40..], 100);

        File.WriteAllBytes(placeFile, place);
        Cut(_scene.TargetPath, flushed, left);
        Assert.Equal(texts[..left], _scene.Received());

        await _scene.FetchAsync(100);
        Assert.Equal(texts, _scene.Received());
        await MoveAsync(["last"], 101);
        Assert.Equal([.. texts, "last"], _scene.Received());
    }

    /// <summary>
    /// The broker's retention says nothing to a reader that comes too late; the envelopes do. A fetcher that had ended in order
    /// took the gap for somebody who had appended to its store, because it had not written down where it stood.
    /// </summary>
    [Fact]
    public async Task Fetch_RetentionOfTheStreamWasQuicker_StopsAndGoesOnOnlyWhenTold()
    {
        StreamForwarderOptions options = _scene.Forward();
        (options.StreamMaxLength, options.StreamSegmentLength) = (200_000, 100_000);
        Produce(_scene.SourcePath, "first");
        await BridgeScene.OnceAsync(options);
        await _scene.FetchAsync(1);

        // Retention looks when a segment is full. Enough of them, and a last one that is surely there.
        options.PackLength = 10_000;
        for (int i = 0; i < 30; i++)
        {
            Produce(_scene.SourcePath, new string('x', 50_000));
            await BridgeScene.OnceAsync(options);
        }

        Produce(_scene.SourcePath, "last");
        await BridgeScene.OnceAsync(options);
        BridgeException error = await _scene.FetchStopsAsync();
        Assert.Equal(BridgeFault.Gap, error.Fault);
        Assert.Contains("retention", error.Message, StringComparison.Ordinal);
        Assert.Equal(["first"], _scene.Received());

        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.OnSourceChange = SourceChangePolicy.Continue;
        await FetchToLastAsync(fetch);
        List<string> received = _scene.Received();
        Assert.InRange(received.Count, 3, 25);
        Assert.All(received[1..^1], text => Assert.Equal(50_000, text.Length));
    }

    /// <summary>
    /// The first confirm on a channel is of the marker, a later one of records. The stream's end decides
    /// what was taken, so a refusal of what the stream holds all the same neither loses nor doubles it.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task Forward_BrokerRefusesByNack_NothingIsLostOrDoubled(int refused)
    {
        using FrameProxy proxy = new(broker.Node.Port) { Refuses = number => number == refused };
        _scene.Address = proxy.Address;
        string[] texts = [.. Enumerable.Range(0, 500).Select(number => number.ToString(CultureInfo.InvariantCulture))];
        Produce(_scene.SourcePath, texts);

        StreamForwarderOptions options = _scene.Forward();
        // One at a time: the broker confirms several together if it can, and then there are too few confirms.
        (options.Window, options.PackLength) = (1, 1024);
        StreamForwarder forwarder = await BridgeScene.OnceAsync(options);

        Assert.Equal(1, proxy.Refusals);
        Assert.True(forwarder.GetStatus().Attempts > 1);
        await _scene.FetchAsync(500);
        Assert.Equal(texts, _scene.Received());
    }

    /// <summary>A queue of another kind took the messages, and nobody said that they would be gone once read.</summary>
    [Fact]
    public async Task Forward_QueueIsNoStream_StopsAndLeavesNothing()
    {
        ConnectionFactory factory = new() { Uri = new Uri(broker.Node.Address) };
        await using IConnection connection = await factory.CreateConnectionAsync();
        await using IChannel channel = await connection.CreateChannelAsync();
        await channel.QueueDeclareAsync(_scene.Stream, durable: true, exclusive: false, autoDelete: false);
        Produce(_scene.SourcePath, "one");

        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(_scene.Forward()));

        Assert.Equal(BridgeFault.NoStream, error.Fault);
        Assert.Contains(_scene.Stream, error.Message, StringComparison.Ordinal);
        Assert.Equal(0u, await channel.MessageCountAsync(_scene.Stream));
        Assert.Equal(BridgeFault.NoStream, (await _scene.FetchStopsAsync()).Fault);
    }

    /// <summary>Messages of <see cref="CutStore"/> are longer than what they say.</summary>
    private static string ReadText(byte[] message) => CrashMessage.Read(message);

    private static void Produce(string path, params string[] texts) =>
        Produce(path, [.. texts.Select(Encoding.UTF8.GetBytes)]);

    private static void Produce(string path, params byte[][] messages)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = path });
        foreach (byte[] message in messages)
            queue.Producer.Produce(message);
    }

    /// <summary>Appends to the source, and moves it to the target, which holds so many messages then, none in a batch.</summary>
    private async Task MoveAsync(string[] texts, int count)
    {
        Produce(_scene.SourcePath, texts);
        StreamForwarderOptions options = _scene.Forward();
        options.PackLength = 0;
        await BridgeScene.OnceAsync(options);
        await _scene.FetchAsync(count);
    }

    /// <summary>The disk has a store up to one message, and another boot opens it.</summary>
    private static void Cut(string path, long flushed, int left)
    {
        using (StoreWords words = new(path))
        using (MappedFileReader reader = MappedFileReader.Open(path))
        {
            words.SetCheckpoint(flushed);
            for (int i = 0; i < left; i++)
                Assert.True(reader.TryRead(out _));
            if (reader.TryRead(out _))
                words.WriteAt(reader.MessageOffset + FrameHeader.Size, (byte)'?');
        }

        using PeerAgent opener = PeerAgent.Start(Guid.NewGuid());
        opener.Ask(string.Create(
            CultureInfo.InvariantCulture,
            $"open path={path} segment={new StreamFetcherOptions().SegmentSize} mode=Shared checksum=WriteAndVerify unread=0"));
        opener.Ask("close");
    }

    private async Task FetchToLastAsync(StreamFetcherOptions options)
    {
        using CancellationTokenSource stop = new();
        Task fetching = new StreamFetcher(options).RunAsync(stop.Token);
        Eventually.True(
            () => _scene.Received()[^1] == "last" || fetching.IsFaulted, "the last message arrives", TimeSpan.FromMinutes(1));
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
    }
}

using System.Text;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>Streams and stores that are gone, or not what they were, while a bridge runs or between two runs.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeLossTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// A forwarder that had begun with the store took it for new as long as it ran. When the broker lost the stream, it made
    /// another one and continued, and nobody heard that everything before was gone.
    /// </summary>
    [Fact]
    public async Task Run_StreamIsDeletedUnderANewStoresForwarder_StopsAndSaysSo()
    {
        _scene.Produce("one");
        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        StreamForwarder forwarder = new(_scene.Forward());
        Task running = forwarder.RunAsync(limit.Token);
        Eventually.True(() => Cursor() > 0 || running.IsCompleted, "the first message is confirmed", BridgeScene.Deadline);

        await _scene.DeleteStreamAsync();
        _scene.Produce("two");

        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => running);
        Assert.Equal(BridgeFault.SourceChanged, error.Fault);
        Assert.Contains("deleted", error.Message, StringComparison.Ordinal);
    }

    /// <summary>
    /// A fetcher that was told to continue left out what the new stream holds before the place up to which the old one was
    /// fetched.
    /// </summary>
    [Theory]
    [InlineData(2)]
    [InlineData(8)]
    public async Task Fetch_StreamWasMadeAgain_StopsAndStartsAtItsBeginningWhenTold(int count)
    {
        await _scene.PublishAsync(Envelopes(Guid.NewGuid(), "old", 5));
        await _scene.FetchAsync(5);
        await _scene.DeleteStreamAsync();
        await _scene.PublishAsync(Envelopes(Guid.NewGuid(), "new", count));

        StreamFetcherOptions options = _scene.Fetch();
        options.RequestTimeout = TimeSpan.FromSeconds(3);
        Assert.Equal(BridgeFault.Gap, (await _scene.FetchStopsAsync(options)).Fault);

        options.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(5 + count, options);
        Assert.Equal([.. Texts("old", 5), .. Texts("new", count)], _scene.Received());
    }

    /// <summary>
    /// A node that had just started did not bring the last message for a while. A fetcher took the stream for another one and
    /// stopped for good: it was the 77th time that two of three brokers were killed.
    /// </summary>
    [Fact]
    public async Task Fetch_StreamIsBehindForAWhile_WaitsAndGoesOn()
    {
        byte[][] envelopes = [.. Envelopes(Guid.NewGuid(), "each", 6)];
        await _scene.PublishAsync(envelopes[..5]);
        await _scene.FetchAsync(5);
        await _scene.DeleteStreamAsync();
        await _scene.PublishAsync(envelopes[..3]);

        StreamFetcherOptions options = _scene.Fetch();
        options.RequestTimeout = TimeSpan.FromSeconds(3);
        using CancellationTokenSource stop = new();
        StreamFetcher fetcher = new(options);
        Task running = fetcher.RunAsync(stop.Token);
        HashSet<BridgeState> states = [];
        Eventually.True(
            () =>
            {
                BridgeStatus status = fetcher.GetStatus();
                states.Add(status.State);
                return (status.Attempts >= 3 && status.LastError!.Contains("is behind", StringComparison.Ordinal))
                    || running.IsCompleted;
            },
            "it tries again", BridgeScene.Deadline);
        Assert.DoesNotContain(BridgeState.Running, states);

        await _scene.PublishAsync(envelopes[3..]);
        Eventually.True(
            () => (_scene.Received().Count == 6 && fetcher.GetStatus().State == BridgeState.Running) || running.IsCompleted,
            "it goes on", BridgeScene.Deadline);
        Assert.Equal(BridgeState.Running, fetcher.GetStatus().State);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        Assert.Equal(Texts("each", 6), _scene.Received());
    }

    /// <summary>
    /// A broker may forget a reader whose connection stays whole; the fetcher waited for ever. RabbitMQ 3.10 does so when the
    /// node's part of the stream is removed.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    public async Task Fetch_BrokerForgetsTheReader_ReadsAgain(int before)
    {
        byte[][] envelopes = [.. Envelopes(Guid.NewGuid(), "each", 6)];
        await _scene.PublishAsync(envelopes[..before]);
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Address = proxy.Address;
        StreamFetcherOptions options = _scene.Fetch();
        options.RequestTimeout = TimeSpan.FromSeconds(3);
        using CancellationTokenSource stop = new();
        Task running = new StreamFetcher(options).RunAsync(stop.Token);
        Eventually.True(
            () => _scene.Received().Count == before || running.IsCompleted, "the first ones arrive", BridgeScene.Deadline);

        proxy.ForgetsReader = true;
        await _scene.PublishAsync(envelopes[before..]);

        Eventually.True(() => _scene.Received().Count == 6 || running.IsCompleted, "the others arrive", BridgeScene.Deadline);
        Assert.False(proxy.ForgetsReader);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        Assert.Equal(Texts("each", 6), _scene.Received());
    }

    /// <summary>
    /// The store's retention gave up what the stream did not hold yet, or somebody trimmed it. The forwarder asked the store for
    /// the place where the stream ends, and failed at each start, whatever it was told.
    /// </summary>
    [Fact]
    public async Task RunOnce_StoreLostWhatTheStreamLacks_StopsAndGoesOnWhenTold()
    {
        _scene.SegmentSize = 65536;
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        _scene.Produce(Texts(new string('x', 1000), 300));
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath, SegmentSize = 65536 }))
        {
            queue.ResetConsumer("bridge", QueueStart.Latest);
            Assert.True(queue.Trim(queue.GetInfo().PublishedOffset) > 65536);
        }

        StreamForwarderOptions options = _scene.Forward();
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
        Assert.Equal(BridgeFault.SourceChanged, error.Fault);
        Assert.Contains("removed", error.Message, StringComparison.Ordinal);

        options.OnSourceChange = SourceChangePolicy.Continue;
        await BridgeScene.OnceAsync(options);
        _scene.Produce("last");
        await BridgeScene.OnceAsync(_scene.Forward());

        Assert.Equal(BridgeFault.Gap, (await _scene.FetchStopsAsync()).Fault);
        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(3, fetch);
        Assert.Equal("last", _scene.Received()[^1]);
    }

    /// <summary>
    /// Retention continued past the forwarder's cursor while it was down. It failed at each start, with a word about the
    /// consumer, whatever it was told, and also if the stream had everything already.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task RunOnce_RetentionPassedTheCursor_TheStreamDecides(bool isForwarded)
    {
        _scene.SegmentSize = 65536;
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        _scene.Produce(Texts(new string('x', 1000), 300));
        if (isForwarded)
            await BridgeScene.OnceAsync(_scene.Forward());
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath, SegmentSize = 65536 }))
        {
            queue.ResetConsumer("bridge", QueueStart.Earliest);
            queue.SetRetention(new RetentionOptions { MaxBytes = 65536, KeepUnconsumed = false });
            Eventually.True(() => queue.GetInfo().LogStart > 65536, "segments are removed", BridgeScene.Deadline);
        }

        StreamForwarderOptions options = _scene.Forward();
        if (!isForwarded)
        {
            // Twice: the first time must leave nothing that makes the second one continue.
            for (int start = 0; start < 2; start++)
            {
                BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
                Assert.Equal(BridgeFault.SourceChanged, error.Fault);
                Assert.Contains("removed", error.Message, StringComparison.Ordinal);
            }

            options.OnSourceChange = SourceChangePolicy.Continue;
        }

        _scene.Produce("last");
        Assert.Equal(1, (await BridgeScene.OnceAsync(options)).GetStatus().Attempts);
        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(isForwarded ? 302 : 3, fetch);
        Assert.Equal("last", _scene.Received()[^1]);
    }

    /// <summary>
    /// A fetcher died after it had appended more than its file says, and the stream was made again: what was appended behind the
    /// place in the file was forgotten with the place, and appended once more.
    /// </summary>
    [Fact]
    public async Task Fetch_StreamWasMadeAgainAfterADeath_RepeatsNothing()
    {
        Guid source = Guid.NewGuid();
        byte[][] envelopes = [.. Envelopes(source, "each", 8)];
        string file = Path.Combine(_scene.TargetPath, "bridge.position");
        await _scene.PublishAsync(envelopes[..3]);
        await _scene.FetchAsync(3);
        byte[] place = await File.ReadAllBytesAsync(file);
        await _scene.PublishAsync(envelopes[3..5]);
        await _scene.FetchAsync(5);
        await File.WriteAllBytesAsync(file, place);
        await _scene.DeleteStreamAsync();
        await _scene.PublishAsync(envelopes[1..]);

        StreamFetcherOptions options = _scene.Fetch();
        options.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(8, options);
        Assert.Equal(Texts("each", 8), _scene.Received());
    }

    /// <summary>A record that no segment of the target takes ended the fetcher with a word about an argument.</summary>
    [Fact]
    public async Task Fetch_RecordIsLongerThanTheTargetTakes_StopsAndSaysSo()
    {
        _scene.Produce("short", new string('x', 100_000));
        await BridgeScene.OnceAsync(_scene.Forward());
        StreamFetcherOptions options = _scene.Fetch();
        options.SegmentSize = 65536;
        BridgeException error = await _scene.FetchStopsAsync(options);
        Assert.Equal(BridgeFault.TargetTooSmall, error.Fault);
        Assert.Contains("length=100000", error.Message, StringComparison.Ordinal);
        Assert.Contains("SegmentSize", error.Message, StringComparison.Ordinal);
        Assert.Equal(["short"], _scene.Received());
    }

    /// <summary>
    /// A later version's envelope was left out as a stranger's message. The fetcher's place was then behind it, and a forwarder
    /// that is older than the one before would have sent again what such envelopes hold. But anybody can publish what begins like
    /// one: both sides stopped at it for good, and there was no way out.
    /// </summary>
    [Fact]
    public async Task Run_EnvelopeOfALaterVersion_StopsBothSidesAndIsLeftOutWhenTold()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        byte[] later = BridgeScene.Envelope(Guid.NewGuid(), 0, 0, 64, "later");
        later[4] = 2;
        await _scene.PublishAsync("no envelope"u8.ToArray(), later);

        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        EnvelopeFormatException error = await Assert.ThrowsAsync<EnvelopeFormatException>(
            () => new StreamFetcher(_scene.Fetch()).RunAsync(limit.Token));
        Assert.Contains("version=2", error.Message, StringComparison.Ordinal);
        Assert.Equal(["one"], _scene.Received());
        Assert.Contains("(OnSourceChange)", error.Message, StringComparison.Ordinal);
        _scene.Produce("two");
        await Assert.ThrowsAsync<EnvelopeFormatException>(() => BridgeScene.OnceAsync(_scene.Forward()));

        StreamForwarderOptions forward = _scene.Forward();
        forward.OnSourceChange = SourceChangePolicy.Continue;
        await BridgeScene.OnceAsync(forward);
        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(2, fetch);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>A forwarder that waits for records did not notice that the store is another one now.</summary>
    [Theory]
    [InlineData(SourceChangePolicy.Stop)]
    [InlineData(SourceChangePolicy.Continue)]
    public async Task Run_StoreIsReplacedWhileItWaits_StopsOrGoesOnWithTheNewOne(SourceChangePolicy policy)
    {
        _scene.Produce("one");
        StreamForwarderOptions options = _scene.Forward();
        options.OnSourceChange = policy;
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        StreamForwarder forwarder = new(options);
        Task running = forwarder.RunAsync(stop.Token);
        Eventually.True(() => Cursor() > 0 || running.IsCompleted, "the first message is confirmed", BridgeScene.Deadline);

        Directory.Delete(_scene.SourcePath, recursive: true);
        _scene.Produce("two");
        if (policy == SourceChangePolicy.Stop)
        {
            Assert.Equal(BridgeFault.SourceChanged, (await Assert.ThrowsAsync<BridgeException>(() => running)).Fault);
            return;
        }

        Eventually.True(
            () => forwarder.GetStatus().Messages == 2 || running.IsCompleted, "the new store is forwarded", BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        await _scene.FetchAsync(2);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    /// <summary>
    /// What was suspected of the old store counted for the new one, up to the same offset: while that was shorter and nothing was
    /// to be read, an envelope without records went out each time the broker had confirmed the one before.
    /// </summary>
    [Fact]
    public async Task Run_StoreIsReplacedAfterARefusal_NothingIsSuspectedOfTheNewOne()
    {
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Address = proxy.Address;
        _scene.SegmentSize = 4 * BrokerFixture.MessageLengthMax;
        _scene.Produce(new string('x', BrokerFixture.MessageLengthMax + 1000), "one");
        StreamForwarderOptions options = _scene.Forward();
        (options.OnSourceChange, options.DeadLetterPath) = (SourceChangePolicy.Continue, Path.Combine(_scene.Root, "dead"));
        // It may look while the store is made anew.
        options.AwaitsStore = true;
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        StreamForwarder forwarder = new(options);
        Task running = forwarder.RunAsync(stop.Token);
        Eventually.True(
            () => forwarder.GetStatus().Messages == 1 || running.IsCompleted, "one is confirmed, the other a dead letter",
            BridgeScene.Deadline);

        Directory.Delete(_scene.SourcePath, recursive: true);
        _scene.Produce("two");
        Eventually.True(
            () => forwarder.GetStatus().Messages == 2 || running.IsCompleted, "the new store is forwarded", BridgeScene.Deadline);
        int before = proxy.Confirms;
        await Task.Delay(TimeSpan.FromSeconds(1));
        Assert.InRange(proxy.Confirms - before, 0, 5);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
    }

    /// <summary>
    /// A forwarder that stood by found another store when its turn came, and ended for good, although it was to continue.
    /// </summary>
    [Fact]
    public async Task Run_StoreIsReplacedWhileItStandsBy_GoesOnWithTheNewOne()
    {
        _scene.Produce("one");
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        StreamForwarderOptions options = _scene.Forward();
        // They may look while the store is made anew.
        (options.OnSourceChange, options.AwaitsStore) = (SourceChangePolicy.Continue, true);
        using CancellationTokenSource stopFirst = CancellationTokenSource.CreateLinkedTokenSource(stop.Token);
        StreamForwarder first = new(options);
        Task firstRunning = first.RunAsync(stopFirst.Token);
        Eventually.True(() => Cursor() > 0 || firstRunning.IsCompleted, "the message is confirmed", BridgeScene.Deadline);
        StreamForwarderOptions other = _scene.Forward();
        (other.OnSourceChange, other.AwaitsStore, other.ConsumerName) = (SourceChangePolicy.Continue, true, "other");
        StreamForwarder second = new(other);
        Task running = second.RunAsync(stop.Token);
        Eventually.True(
            () => second.GetStatus().State == BridgeState.Standby || running.IsCompleted, "the other one stands by",
            BridgeScene.Deadline);

        Directory.Delete(_scene.SourcePath, recursive: true);
        _scene.Produce("two");
        await stopFirst.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => firstRunning);
        Eventually.True(
            () => second.GetStatus().Messages == 1 || running.IsCompleted, "the new store is forwarded", BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
    }

    /// <summary>What was not forwarded did not lag while there was no broker, which is when somebody looks.</summary>
    [Fact]
    public async Task Run_BrokerIsNotThere_TheStoreLags()
    {
        _scene.Produce(new string('x', 10_000));
        StreamForwarderOptions options = _scene.Forward();
        options.Brokers = "amqp://127.0.0.1:1";
        StreamForwarder forwarder = new(options);
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        Task running = forwarder.RunAsync(stop.Token);
        Eventually.True(
            () => forwarder.GetStatus().State == BridgeState.BackingOff || running.IsCompleted, "it tries",
            BridgeScene.Deadline);
        Assert.InRange(forwarder.GetStatus().LagBytes, 10_000, 11_000);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
    }

    /// <summary>
    /// A message with headers was left out in silence where what was fetched ended within it: only the length without headers
    /// was looked at.
    /// </summary>
    [Fact]
    public async Task Fetch_FetchedPlaceIsWithinAMessageWithHeaders_StopsAndGoesOnWhenTold()
    {
        Guid source = Guid.NewGuid();
        await _scene.PublishAsync(BridgeScene.Envelope(source, 0, 0, 24, "before it"));
        await _scene.FetchAsync(1);
        EnvelopeWriter writer = new(source, Guid.Empty, 1024, isDurable: false);
        writer.Begin(0);
        HeaderFields fields = new(new MessageHeaders { Key = new byte[20] });
        ReadOnlySpan<byte> block = fields.Write(new byte[HeaderBlock.LengthMax]);
        Assert.True(writer.TryAdd(0, "written"u8, block));
        await _scene.PublishAsync(writer.End(EnvelopeKind.Records, 0, 48).ToArray());

        StreamFetcherOptions options = _scene.Fetch();
        Assert.Equal(BridgeFault.SourceChanged, (await _scene.FetchStopsAsync(options)).Fault);
        options.OnSourceChange = SourceChangePolicy.Continue;
        await _scene.FetchAsync(2, options);
        Assert.Equal(["before it", "written"], _scene.Received());
    }

    private static IEnumerable<byte[]> Envelopes(Guid source, string text, int count) =>
        Texts(text, count).Select((each, index) => BridgeScene.Envelope(source, 0, index * 64, (index + 1) * 64, each));

    private static IEnumerable<string> Texts(string text, int count) =>
        Enumerable.Range(0, count).Select(index => $"{text}{index}");

    private long Cursor()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath });
        return queue.GetInfo().Consumers.FirstOrDefault(consumer => consumer.Name == "bridge")?.Offset ?? 0;
    }
}

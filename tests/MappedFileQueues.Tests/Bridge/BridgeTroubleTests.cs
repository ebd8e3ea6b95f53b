using System.Collections.Concurrent;
using System.Diagnostics;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tests.Tool;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>What brokers refuse, streams that are not as they were, and what must not be told.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeTroubleTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);
    private readonly Guid _source = Guid.NewGuid();

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The broker ends the channel with 406 for such a record; all others get through, each once. When the refused record was the
    /// last that had been sent, the forwarder was careful no longer once it was sent again, and took no refusal for its own: it
    /// tried for ever, if the broker was quick.
    /// </summary>
    [Fact]
    public async Task RunOnce_BrokerRefusesARecord_OnlyThatOneGoesToTheDeadLetters()
    {
        const int TooLong = BrokerFixture.MessageLengthMax + 1000;
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath }))
        {
            queue.Producer.Produce("before"u8);
            queue.Producer.Produce(new byte[TooLong]);
            queue.Producer.Produce("after"u8);
        }

        StreamForwarderOptions options = new()
        {
            PackLength = 1024,
            BackOffMax = TimeSpan.FromMilliseconds(200),
            StorePath = _scene.SourcePath,
            Brokers = broker.Node.Address,
            Stream = _scene.Stream,
        };
        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(
            () => new StreamForwarder(options).RunOnceAsync(limit.Token));
        Assert.Equal(BridgeFault.Refused, error.Fault);

        options.DeadLetterPath = Path.Combine(_scene.Root, "dead");
        await new StreamForwarder(options).RunOnceAsync(limit.Token);
        await FetchAllAsync(2);
        Assert.Equal(["before", "after"], _scene.Received());
        using MappedFileReader dead = MappedFileReader.Open(options.DeadLetterPath);
        Assert.True(dead.TryRead(out ReadOnlySpan<byte> letter));
        DeadLetter refused = DeadLetter.Parse(letter);
        Assert.Equal(TooLong, refused.Message.Length);
        Assert.Equal(4, refused.Attempts);
        Assert.Contains("refuses", refused.Error, StringComparison.Ordinal);
        Assert.False(dead.TryRead(out _));
    }

    /// <summary>Retention of the stream has removed what lies between: that must not pass in silence.</summary>
    [Fact]
    public async Task Fetch_EnvelopeIsMissing_StopsAndGoesOnOnlyWhenTold()
    {
        await _scene.PublishAsync(Envelope(1, 0, 64, "one"), Envelope(1, 128, 192, "three"));
        BridgeException error = await _scene.FetchStopsAsync();
        Assert.Equal(BridgeFault.Gap, error.Fault);
        Assert.Contains("from=64, to=128", error.Message, StringComparison.Ordinal);
        Assert.Equal(["one"], _scene.Received());

        await FetchAllAsync(2, policy: SourceChangePolicy.Continue);
        Assert.Equal(["one", "three"], _scene.Received());
    }

    /// <summary>A power loss took away at the source what the stream holds already.</summary>
    [Fact]
    public async Task Fetch_SourceWasCutBack_StopsAndGoesOnOnlyWhenTold()
    {
        await _scene.PublishAsync(Envelope(1, 0, 64, "one"), Envelope(2, 32, 96, "other"));
        BridgeException error = await _scene.FetchStopsAsync();
        Assert.Equal(BridgeFault.SourceChanged, error.Fault);
        Assert.Contains("epoch 2", error.Message, StringComparison.Ordinal);
        Assert.Equal(["one"], _scene.Received());

        await FetchAllAsync(2, policy: SourceChangePolicy.Continue);
        Assert.Equal(["one", "other"], _scene.Received());
    }

    /// <summary>A power loss that took nothing away raises the epoch too, and leaves nothing ambiguous.</summary>
    [Fact]
    public async Task Fetch_NewEpochGoesOnWhereTheOldOneEnded_GoesOn()
    {
        await _scene.PublishAsync(Envelope(1, 0, 64, "one"), Envelope(2, 64, 128, "two"), Envelope(2, 64, 128, "two"));
        await FetchAllAsync(2);
        Assert.Equal(["one", "two"], _scene.Received());
    }

    [Fact]
    public async Task Run_WrongPassword_KeepsUserAndPasswordToItself()
    {
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = _scene.SourcePath }))
        {
        }

        Words words = new();
        StreamForwarder forwarder = new(
            new StreamForwarderOptions
            {
                StorePath = _scene.SourcePath,
                Stream = _scene.Stream,
                Brokers = broker.Node.Address.Replace("guest:guest", "alice:wonderland", StringComparison.Ordinal),
                BackOffMax = TimeSpan.FromMilliseconds(200),
            },
            words);
        using CancellationTokenSource stop = new();
        Task running = forwarder.RunAsync(stop.Token);
        Eventually.True(() => forwarder.GetStatus().Attempts >= 2, "it is refused and tries again", BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        string all = string.Join('\n', words.All) + forwarder.GetStatus();
        Assert.Contains("refused", all, StringComparison.OrdinalIgnoreCase);
        Assert.DoesNotContain("alice", all, StringComparison.Ordinal);
        Assert.DoesNotContain("wonderland", all, StringComparison.Ordinal);
    }

    /// <summary>A certificate that nobody vouches for is refused; one that the system trusts is used.</summary>
    [Fact]
    public async Task Tls_OwnCertificate_IsRefusedUntilItIsTrusted()
    {
        _ = broker.Node;
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath }))
            queue.Producer.Produce("secret"u8);

        StreamForwarder distrustful = new(
            new StreamForwarderOptions { StorePath = _scene.SourcePath, Stream = _scene.Stream, Brokers = broker.TlsAddress });
        using (CancellationTokenSource stop = new())
        {
            Task running = distrustful.RunAsync(stop.Token);
            Eventually.True(() => distrustful.GetStatus().LastError is not null, "it is refused", BridgeScene.Deadline);
            await stop.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        }

        Assert.Contains("certificate", distrustful.GetStatus().LastError!, StringComparison.OrdinalIgnoreCase);
        Assert.Equal(0, distrustful.GetStatus().Messages);

        ProcessStartInfo trusting = new(
            "dotnet",
            [
                "exec", Repository.ToolPath, "bridge", "forward", _scene.SourcePath, broker.TlsAddress,
                "--stream", _scene.Stream, "--once",
            ])
        {
            Environment = { ["SSL_CERT_FILE"] = broker.CertificatePath },
        };
        ToolRun.Start(trusting, []).Expect(0);
        await FetchAllAsync(1);
        Assert.Equal(["secret"], _scene.Received());
    }

    private byte[] Envelope(long epoch, long from, long to, string text) =>
        BridgeScene.Envelope(_source, epoch, from, to, text);

    private Task FetchAllAsync(int count, SourceChangePolicy policy = SourceChangePolicy.Stop)
    {
        StreamFetcherOptions options = _scene.Fetch();
        options.OnSourceChange = policy;
        return _scene.FetchAsync(count, options);
    }

    private sealed class Words : ILogger<StreamForwarder>
    {
        public ConcurrentQueue<string> All { get; } = new();

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            All.Enqueue(formatter(state, exception) + exception);
    }
}

using System.Diagnostics;
using System.Globalization;
using System.Text;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tests.Tool;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>A store through a stream into another store, on a real broker.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeTests(BrokerFixture broker) : IDisposable
{
    private readonly BridgeScene _scene = new(broker);
    private readonly CancellationTokenSource _stop = new();

    public void Dispose()
    {
        _stop.Cancel();
        _stop.Dispose();
        _scene.Dispose();
    }

    [Theory]
    [InlineData(StreamForwarderOptions.PackLengthDefault, StreamLockKind.Quorum)]
    [InlineData(0, StreamLockKind.Classic)]
    public async Task RunOnce_Twice_EachMessageArrivesOnceInOrder(int packLength, StreamLockKind lockKind)
    {
        StreamForwarderOptions options = _scene.Forward();
        (options.PackLength, options.Lock) = (packLength, lockKind);
        Produce(0, 3000);
        await BridgeScene.OnceAsync(options);
        Produce(3000, 4000);
        StreamForwarder second = await BridgeScene.OnceAsync(options);
        Assert.Equal(1000, second.GetStatus().Messages);

        await _scene.FetchAsync(4000);
        await _scene.FetchAsync(4000);
        Assert.Equal(Expected(4000), _scene.Received());
    }

    /// <summary>Headers arrive with their messages: alone, in a batch, and beside messages without.</summary>
    [Theory]
    [InlineData(StreamForwarderOptions.PackLengthDefault)]
    [InlineData(0)]
    public async Task RunOnce_MessagesWithHeaders_ArriveWithThem(int packLength)
    {
        const int count = 60;
        using (MappedFileQueue queue = Open(_scene.SourcePath))
        {
            for (int i = 0; i < count; i++)
                queue.Producer.Produce(BitConverter.GetBytes(i), new ProduceOptions { Headers = HeadersOf(i) });
        }

        StreamForwarderOptions options = _scene.Forward();
        options.PackLength = packLength;
        await BridgeScene.OnceAsync(options);
        await _scene.FetchAsync(count);

        using MappedFileReader reader = MappedFileReader.Open(_scene.TargetPath);
        for (int i = 0; i < count; i++)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(i, BitConverter.ToInt32(message));
            Assert.Equal(HeadersOf(i), reader.Headers);
        }

        static MessageHeaders? HeadersOf(int number) => number % 3 == 0 ? null : new()
        {
            Time = DateTimeOffset.UnixEpoch.AddSeconds(number),
            Key = BitConverter.GetBytes(number),
            TraceContext = number % 3 == 1 ? default : new ActivityContext(
                ActivityTraceId.CreateFromString("0123456789abcdef0123456789abcdef"),
                ActivitySpanId.CreateFromString("fedcba9876543210"), ActivityTraceFlags.Recorded, null, isRemote: true),
            ProducerId = 9,
            Sequence = (ulong)number,
        };
    }

    /// <summary>A forwarder that dies forgets nothing that counts: the stream's end decides, whatever the cursor says.</summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task RunOnce_CursorIsWrong_GoesOnWhereTheStreamEnds(bool isBehind)
    {
        Produce(0, 1000);
        await BridgeScene.OnceAsync(_scene.Forward());
        if (!isBehind)
            Produce(1000, 1500);
        using (MappedFileQueue queue = Open(_scene.SourcePath))
            queue.ResetConsumer("bridge", isBehind ? QueueStart.Earliest : QueueStart.Latest);
        if (isBehind)
            Produce(1000, 1500);
        await BridgeScene.OnceAsync(_scene.Forward());
        await _scene.FetchAsync(1500);
        Assert.Equal(Expected(1500), _scene.Received());
    }

    [Fact]
    public async Task Run_SecondForwarder_StandsByAndTakesOver()
    {
        Produce(0, 10);
        using CancellationTokenSource first = new();
        StreamForwarder holder = new(_scene.Forward());
        Task holding = holder.RunAsync(first.Token);
        Eventually.True(() => holder.GetStatus().Messages == 10, "the first forwarder has the lock", BridgeScene.Deadline);

        using CancellationTokenSource other = new();
        StreamForwarderOptions options = _scene.Forward();
        // A name of its own, or the store's lock would keep it away.
        options.ConsumerName = "another";
        options.OnSourceChange = SourceChangePolicy.Continue;
        StreamForwarder waiting = new(options);
        Task waits = waiting.RunAsync(other.Token);
        Eventually.True(() => waiting.GetStatus().State == BridgeState.Standby, "the second one stands by", BridgeScene.Deadline);

        await first.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => holding);
        Produce(10, 20);
        Eventually.True(() => waiting.GetStatus().Messages == 10, "the second one has taken over", BridgeScene.Deadline);
        await other.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);
        await _scene.FetchAsync(20);
        Assert.Equal(Expected(20), _scene.Received());
    }

    /// <summary>The broker is killed again and again while messages flow through both directions.</summary>
    [Fact]
    public async Task Run_BrokerIsKilled_NothingIsLostOrDoubled()
    {
        const int Count = 10_000;
        const int Kills = 2;
        StreamFetcherOptions fetch = _scene.Fetch();
        fetch.PositionInterval = TimeSpan.FromMilliseconds(50);
        Produce(0, 0);
        StreamForwarder forwarder = new(_scene.Forward());
        StreamFetcher fetcher = new(fetch);
        Task forwarding = forwarder.RunAsync(_stop.Token);
        Task fetching = fetcher.RunAsync(_stop.Token);
        // The laboratory of the bridge kills it dozens of times; each start takes seconds.
        for (int part = 0; part < Kills; part++)
        {
            int from = part * Count / Kills;
            Produce(from, from + (Count / Kills));
            long goal = from + (Count / Kills / 2);
            Eventually.True(() => fetcher.GetStatus().Messages >= goal || forwarding.IsFaulted || fetching.IsFaulted,
                "messages arrive", BridgeScene.Deadline);
            broker.Node.Kill();
            _ = broker.Node;
        }

        Eventually.True(
            () => fetcher.GetStatus().Messages >= Count || forwarding.IsFaulted || fetching.IsFaulted, "all arrive",
            BridgeScene.Deadline);
        await _stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => forwarding);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => fetching);
        Assert.Equal(Expected(Count), _scene.Received());
    }

    [Fact]
    public async Task RunOnce_StoreWasReplaced_StopsAndSaysSo()
    {
        Produce(0, 10);
        await BridgeScene.OnceAsync(_scene.Forward());
        MappedFileQueue.Delete(_scene.SourcePath);
        Produce(0, 10);
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(_scene.Forward()));
        Assert.Equal(BridgeFault.SourceChanged, error.Fault);

        StreamForwarderOptions goesOn = _scene.Forward();
        goesOn.OnSourceChange = SourceChangePolicy.Continue;
        Assert.Equal(10, (await BridgeScene.OnceAsync(goesOn)).GetStatus().Messages);
    }

    [Fact]
    public async Task Fetch_StrangerAppendedToTheTarget_StopsAndSaysSo()
    {
        Produce(0, 10);
        await BridgeScene.OnceAsync(_scene.Forward());
        StreamFetcherOptions options = _scene.Fetch();
        options.PositionInterval = TimeSpan.FromHours(1);
        await _scene.FetchAsync(10, options);
        using (MappedFileQueue queue = Open(_scene.TargetPath))
            queue.Producer.Produce("stranger"u8);
        Produce(10, 20);
        await BridgeScene.OnceAsync(_scene.Forward());
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(
            () => new StreamFetcher(options).RunAsync(new CancellationTokenSource(BridgeScene.Deadline).Token));
        Assert.Equal(BridgeFault.TargetChanged, error.Fault);
    }

    [Fact]
    public async Task RunOnce_RecordIsTooLong_GoesToTheDeadLetters()
    {
        Produce(0, 5);
        using (MappedFileQueue queue = Open(_scene.SourcePath))
            queue.Producer.Produce(new byte[2000]);
        Produce(5, 10);
        StreamForwarderOptions options = _scene.Forward();
        options.RecordLengthMax = 1000;
        BridgeException error = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(options));
        Assert.Equal(BridgeFault.Refused, error.Fault);

        options.DeadLetterPath = Path.Combine(_scene.Root, "dead");
        await BridgeScene.OnceAsync(options);
        await _scene.FetchAsync(10);
        Assert.Equal(Expected(10), _scene.Received());
        using MappedFileReader dead = MappedFileReader.Open(options.DeadLetterPath);
        Assert.True(dead.TryRead(out ReadOnlySpan<byte> letter));
        Assert.Equal(2000, DeadLetter.Parse(letter).Message.Length);
    }

    [Fact]
    public async Task Host_ForwarderAndFetcher_MoveMessagesAndAreHealthy()
    {
        Produce(0, 100);
        using FrameProxy proxy = new(broker.Node.Port);
        _scene.Address = string.Create(CultureInfo.InvariantCulture, $"amqp://guest:guest@127.0.0.1:{proxy.Port}");
        ServiceCollection services = new();
        services.AddLogging();
        services.AddMappedFileQueueForwarder("orders", options => _scene.Fill(options, _scene.SourcePath));
        services.AddMappedFileQueueFetcher("copy", options => _scene.Fill(options, _scene.TargetPath));
        services.AddHealthChecks().AddMappedFileQueueBridges();
        await using ServiceProvider provider = services.BuildServiceProvider();
        HealthCheckService health = provider.GetRequiredService<HealthCheckService>();
        IHostedService[] hosted = BridgeScene.BridgesIn(provider);
        Assert.Equal(2, hosted.Length);
        foreach (IHostedService service in hosted)
            await service.StartAsync(CancellationToken.None);
        Eventually.True(() => Count() == 100, "all messages arrive", BridgeScene.Deadline);
        // They may have lost an attempt on a busy machine.
        Eventually.Equal(
            HealthStatus.Healthy, () => health.CheckHealthAsync().GetAwaiter().GetResult().Status, BridgeScene.Deadline);

        proxy.Dispose();
        Eventually.True(
            () => health.CheckHealthAsync().GetAwaiter().GetResult().Status == HealthStatus.Degraded, "trouble is told",
            BridgeScene.Deadline);
        foreach (IHostedService service in hosted)
            await service.StopAsync(CancellationToken.None);
        Assert.Equal(Expected(100), _scene.Received());
    }

    [Fact]
    public void Tool_ForwardOnceAndFetch_MovesLinesAndKeepsThePassword()
    {
        string address = broker.Node.Address;
        string input = Repository.PathOf("README.md");
        ToolRun.Of("produce", _scene.SourcePath, "--lines", input).Expect(0);
        ToolRun run = ToolRun.Of("bridge", "forward", _scene.SourcePath, address, "--stream", _scene.Stream, "--once").Expect(0);
        Assert.DoesNotContain("guest", run.Text + run.Error, StringComparison.Ordinal);
        Assert.Contains("messages", run.Text, StringComparison.Ordinal);

        using ChildProcess fetch = ChildProcess.StartTool(
            "bridge", "fetch", address, "--stream", _scene.Stream, _scene.TargetPath);
        int count = File.ReadAllLines(input).Length;
        Eventually.True(() => Count() == count, "all lines arrive", BridgeScene.Deadline);
        fetch.Signal(ChildProcess.SigTerm);
        fetch.ExpectExit(143);
        Assert.Equal(File.ReadAllBytes(input), ToolRun.Of("consume", _scene.TargetPath, "--format", "text").Expect(0).Output);
    }

    /// <summary>
    /// The consumer in another language, from samples/, with the client of its language. It died at the first message that was
    /// none of the bridge's.
    /// </summary>
    [Fact]
    public async Task Sample_PythonConsumer_PrintsTheMessages()
    {
        Assert.SkipUnless(
            File.Exists("/usr/bin/python3") && Directory.Exists("/usr/lib/python3/dist-packages/pika"),
            "python3-pika is not installed");
        await _scene.PublishAsync("hello"u8.ToArray(), [.. "MFQE"u8, 2], new byte[100]);
        Produce(0, 500);
        StreamForwarderOptions options = _scene.Forward();
        options.OnSourceChange = SourceChangePolicy.Continue;
        await BridgeScene.OnceAsync(options);
        ToolRun run = ToolRun.Start(
            new ProcessStartInfo(
                "/usr/bin/python3",
                [Repository.PathOf("samples/bridge_consumer.py"), $"{broker.Node.Address}/%2F", _scene.Stream, "500"]),
            []).Expect(0);
        Assert.Equal(Expected(500), run.Lines);
        Assert.Contains("left out the message at 2", run.Error, StringComparison.Ordinal);
    }

    private static MappedFileQueue Open(string path) => new(new MappedFileQueueOptions { StorePath = path });

    private static string[] Expected(int count) =>
        [.. Enumerable.Range(0, count).Select(number => number.ToString(CultureInfo.InvariantCulture))];

    private void Produce(int from, int to)
    {
        using MappedFileQueue queue = Open(_scene.SourcePath);
        for (int number = from; number < to; number++)
            queue.Producer.Produce(Encoding.UTF8.GetBytes(number.ToString(CultureInfo.InvariantCulture)));
    }

    private int Count() => _scene.Received().Count;
}

using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using RabbitMQ.Client;

namespace MappedFileQueues.Tests.Bridge;

/// <summary>Accounts that may not do everything, options that cannot work, applications without their bridge.</summary>
[Collection(BrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BridgeSettingsTests(BrokerFixture broker) : IDisposable
{
    /// <summary>
    /// A reader may read the stream and nothing else; a sender may not make queues except for the lock; a stranger may do
    /// everything with the lock's queue but read it.
    /// </summary>
    private const string Definitions = """
        {"vhosts":[{"name":"/"}],
        "users":[{"name":"guest","password":"guest","tags":"administrator"},{"name":"reader","password":"r","tags":""},
         {"name":"sender","password":"s","tags":""},{"name":"stranger","password":"x","tags":""}],
        "permissions":[{"user":"guest","vhost":"/","configure":".*","write":".*","read":".*"},
         {"user":"reader","vhost":"/","configure":"^$","write":"^$","read":"^test-"},
         {"user":"sender","vhost":"/","configure":"^mfq\\.lock\\.","write":".*","read":".*"},
         {"user":"stranger","vhost":"/","configure":".*","write":".*","read":"^test-"}]}
        """;

    private readonly BridgeScene _scene = new(broker);

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// The look whether a queue is a stream asked for the right to make it, which no reader needs. And a forwarder that was not
    /// allowed to read the lock's queue took that for a lock that somebody has: it stood by for ever, in good health.
    /// </summary>
    [Fact]
    public async Task Run_AccountsWithFewRights_WorkOrSayWhatIsMissing()
    {
        Assert.SkipWhen(BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        string path = Path.Combine(_scene.Root, "definitions.json");
        await File.WriteAllTextAsync(path, Definitions);
        using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(_scene.Root, "own"), 1, $"load_definitions = {path}\n");
        string address = cluster.Nodes[0].Address;
        ConnectionFactory factory = new() { Uri = new Uri(address) };
        await using (IConnection connection = await factory.CreateConnectionAsync())
        {
            await using IChannel channel = await connection.CreateChannelAsync();
            await channel.QueueDeclareAsync(
                _scene.Stream, durable: true, exclusive: false, autoDelete: false,
                new Dictionary<string, object?> { ["x-queue-type"] = "stream" });
        }

        _scene.Produce("one");
        StreamForwarderOptions stranger = _scene.Forward();
        (stranger.Brokers, stranger.Lock) = (As("stranger:x"), StreamLockKind.Classic);
        StreamForwarder refused = new(stranger);
        using (CancellationTokenSource stop = new())
        {
            Task running = refused.RunAsync(stop.Token);
            Eventually.True(() => refused.GetStatus().LastError is not null, "it says what is missing", BridgeScene.Deadline);
            Assert.Contains("access to queue", refused.GetStatus().LastError!, StringComparison.Ordinal);
            await stop.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
            BridgeException denied = await Assert.ThrowsAsync<BridgeException>(() => BridgeScene.OnceAsync(stranger));
            Assert.Equal(BridgeFault.Denied, denied.Fault);
        }

        _scene.Address = As("sender:s");
        await BridgeScene.OnceAsync(_scene.Forward());
        _scene.Address = As("reader:r");
        await _scene.FetchAsync(1);
        Assert.Equal(["one"], _scene.Received());

        string As(string account) => address.Replace("guest:guest", account, StringComparison.Ordinal);
    }

    /// <summary>
    /// An error that no queue has, such as a file that may not be written, took the application with it. The bridge logs it, the
    /// health check tells it, and the application continues.
    /// </summary>
    [Fact]
    public async Task Host_BridgeFailsForGood_TheApplicationGoesOnAndTheHealthCheckSaysSo()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = _scene.TargetPath }))
        {
        }

        Directory.CreateDirectory(Path.Combine(_scene.TargetPath, "bridge.position"));
        ServiceCollection services = new();
        services.AddLogging();
        services.AddMappedFileQueueFetcher("copy", options => _scene.Fill(options, _scene.TargetPath));
        services.AddHealthChecks().AddMappedFileQueueBridges();
        await using ServiceProvider provider = services.BuildServiceProvider();
        BackgroundService service = Assert.Single(BridgeScene.BridgesIn(provider));
        await service.StartAsync(CancellationToken.None);
        Task work = service.ExecuteTask!;
        Eventually.True(() => work.IsCompleted, "it stops", BridgeScene.Deadline);
        Assert.Equal(TaskStatus.RanToCompletion, work.Status);
        HealthReport health = await provider.GetRequiredService<HealthCheckService>().CheckHealthAsync();
        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains("bridge.position", health.Entries.Values.Single().Description, StringComparison.Ordinal);
    }

    /// <summary>
    /// The error was none of a queue, and a right that is missing was not waited for as for the store's own files.
    /// </summary>
    [Fact]
    public async Task Fetch_PlaceFileCannotBeOpened_IsAnErrorOfTheDisk()
    {
        await _scene.PublishAsync(BridgeScene.Envelope(Guid.NewGuid(), 0, 0, 64, "one"));
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = _scene.TargetPath }))
        {
        }

        string path = Path.Combine(_scene.TargetPath, "bridge.position");
        Directory.CreateDirectory(path);
        using CancellationTokenSource limit = new(BridgeScene.Deadline);
        QueueDiskException error = await Assert.ThrowsAsync<QueueDiskException>(
            () => new StreamFetcher(_scene.Fetch()).RunAsync(limit.Token));
        Assert.Equal((path, 21), (error.Path, error.Errno));
    }

    /// <summary>
    /// Each look for the store was told as the end of the bridge, and the health check said that it had stopped for good.
    /// </summary>
    [Fact]
    public async Task Host_StoreIsNotThereYet_WaitsForIt()
    {
        ServiceCollection services = new();
        services.AddLogging();
        services.AddMappedFileQueueForwarder("orders", options => _scene.Fill(options, _scene.SourcePath));
        services.AddHealthChecks().AddMappedFileQueueBridges();
        await using ServiceProvider provider = services.BuildServiceProvider();
        HealthCheckService health = provider.GetRequiredService<HealthCheckService>();
        IHostedService service = Assert.Single(BridgeScene.BridgesIn(provider));
        await service.StartAsync(CancellationToken.None);
        Eventually.True(
            () => Status() is { Description: { } text } && text.Contains(_scene.SourcePath, StringComparison.Ordinal),
            "it tells what it waits for", BridgeScene.Deadline);
        Assert.Equal(HealthStatus.Degraded, Status().Status);

        _scene.Produce("one");
        Eventually.True(() => Status().Status == HealthStatus.Healthy, "it runs", BridgeScene.Deadline);
        await service.StopAsync(CancellationToken.None);

        HealthReportEntry Status() => health.CheckHealthAsync().GetAwaiter().GetResult().Entries.Values.Single();
    }

    /// <summary>Each of these ended the bridge later, with a word about something else, or made it try for ever.</summary>
    [Fact]
    public void New_OptionsCannotWork_SaysWhichOne()
    {
        Refuses("PackLength", options => options.PackLength = int.MaxValue);
        Refuses("Window", options => options.Window = int.MaxValue);
        Refuses("PackTime", options => options.PackTime = TimeSpan.MaxValue);
        Refuses("RequestTimeout", options => options.RequestTimeout = TimeSpan.MaxValue);
        Refuses("BackOffMax", options => options.BackOffMax = TimeSpan.MaxValue);
        Refuses("Heartbeat", options => options.Heartbeat = TimeSpan.FromDays(30));
        Refuses("StreamMaxAge", options => options.StreamMaxAge = TimeSpan.Zero);
        Refuses("StreamMaxLength", options => options.StreamMaxLength = 0);
        Refuses("StreamSegmentLength", options => options.StreamSegmentLength = -1);
        Refuses("StreamSegmentLength", options => options.StreamSegmentLength = 4_000_000_000);
        Refuses("OnSourceChange", options => options.OnSourceChange = (SourceChangePolicy)2);
        Refuses("Lock", options => options.Lock = (StreamLockKind)7);
        Refuses("TimeProvider", options => options.TimeProvider = null!);
        Refuses("DeadLetterPath", options => options.DeadLetterPath = options.StorePath + "/");
        string link = Path.Combine(_scene.Root, "link");
        Directory.CreateSymbolicLink(link, _scene.SourcePath);
        Refuses("DeadLetterPath", options => options.DeadLetterPath = link);
        Refuses("Stream", options => options.Stream = new string('s', 250));
        Refuses("ConsumerName", options => options.ConsumerName = "a/b");
        Refuses("ConsumerName", options => options.ConsumerName = "nul");
        Refuses("address", options => options.Brokers = "amqp://host/a/b");
        Refuses("address", options => options.Brokers = "amqp://host/a/");
        Refuses("address", options => options.Brokers = "amqp://user:12/secret@host");
        Refuses("address", options => options.Brokers = "amqp://user:12?secret@host");
        StreamFetcherOptions fetch = _scene.Fill(new StreamFetcherOptions(), _scene.TargetPath, "amqp://host");
        fetch.SegmentSize = -1;
        Assert.Contains("SegmentSize", Assert.ThrowsAny<ArgumentException>(() => new StreamFetcher(fetch)).Message);
    }

    /// <summary>The application does not start, and its error tells which bridge and which key.</summary>
    [Fact]
    public async Task Host_OptionIsMissing_NamesTheBridgeAndTheKey()
    {
        HostApplicationBuilder builder = Host.CreateEmptyApplicationBuilder(null);
        builder.Services.AddMappedFileQueueForwarder("orders", options => options.StorePath = _scene.SourcePath);
        using IHost host = builder.Build();
        Exception error = await Assert.ThrowsAnyAsync<Exception>(() => host.StartAsync());
        Assert.Contains("orders", error.Message, StringComparison.Ordinal);
        Assert.Contains("Stream is missing", error.Message, StringComparison.Ordinal);
    }

    /// <summary>The second one's options were added to the first one's, and both ran with all of them.</summary>
    [Fact]
    public void Add_SameNameTwice_IsRefused()
    {
        ServiceCollection services = new();
        services.AddMappedFileQueueForwarder("orders", options => options.StorePath = _scene.SourcePath);
        services.AddMappedFileQueueFetcher("orders", options => options.StorePath = _scene.TargetPath);

        InvalidOperationException error = Assert.Throws<InvalidOperationException>(
            () => services.AddMappedFileQueueForwarder("orders", options => options.StorePath = _scene.TargetPath));

        Assert.Contains("orders", error.Message, StringComparison.Ordinal);
    }

    private void Refuses(string word, Action<StreamForwarderOptions> change)
    {
        StreamForwarderOptions options = _scene.Fill(new StreamForwarderOptions(), _scene.SourcePath, "amqp://host");
        change(options);
        ArgumentException error = Assert.ThrowsAny<ArgumentException>(() => new StreamForwarder(options));
        Assert.Contains(word, error.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", error.ToString(), StringComparison.Ordinal);
    }
}

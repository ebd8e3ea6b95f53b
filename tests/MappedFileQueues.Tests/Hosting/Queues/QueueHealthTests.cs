using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Tests.Hosting.Queues;

/// <summary>What health and the log say of a store and of the consumers in an application.</summary>
public sealed class QueueHealthTests
{
    private readonly Script _script = new();
    private readonly FaultDisk _disk = new();

    [Fact]
    public async Task Check_AllIsWell_IsHealthy()
    {
        await using TestHost host = MakeHost();
        await host.StartAsync();

        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
    }

    [Fact]
    public async Task Check_FlushFailed_SaysPoisonAndTheLogDoesToo()
    {
        await using TestHost host = MakeHost(o => o.Durability = DurabilityLevel.PageCache);
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        queue.Producer.Produce(1);
        _disk.FailsFlushes = true;
        Assert.ThrowsAny<MappedFileQueueException>(() => queue.Flush());
        _disk.FailsFlushes = false;

        await ExpectAsync(host, HealthStatus.Unhealthy, "The store is poisoned");
        host.Log.WaitFor(104);
    }

    [Fact]
    [Trait("Category", "Slow")]
    public async Task Check_ConsumerIsBehind_SaysHowFarAndHowLong()
    {
        Files.ManualTime time = new();
        await using TestHost host = MakeHost(o => o.TimeProvider = time, health => health.LagBytesMax = 100);
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        _ = queue.OpenConsumer("audit").CommittedOffset;
        for (int i = 0; i < 10; i++)
            queue.Producer.Produce(i);
        // Otherwise the check may find messages that have not been flushed for long.
        queue.Flush();
        await host.CheckHealthAsync();
        time.Advance(TimeSpan.FromSeconds(90));

        await ExpectAsync(host, HealthStatus.Degraded, "Consumer \"audit\" is behind: lag=160, LagBytesMax=100.");
        HealthReportEntry entry = (await host.CheckHealthAsync()).Entries.Values.Single();
        Assert.Equal(90.0, entry.Data["lagSeconds:audit"]);
        Assert.Equal(160L, entry.Data["lagBytes:audit"]);
    }

    [Theory]
    [InlineData("audit")]
    [InlineData("group/audit")]
    [Trait("Category", "Slow")]
    public async Task Check_TimeOfLag_NamesTheLimitThatIsBroken(string name)
    {
        Files.ManualTime time = new();
        await using TestHost host = MakeHost(o => o.TimeProvider = time, health => health.LagTimeMax = TimeSpan.FromMinutes(1));
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        using IDisposable consumer = name == "audit" ? queue.OpenConsumer("audit") : queue.OpenGroupMember("audit");
        queue.Producer.Produce(1);
        queue.Flush();
        time.Advance(TimeSpan.FromSeconds(59));
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
        time.Advance(TimeSpan.FromSeconds(2));

        await ExpectAsync(
            host, HealthStatus.Degraded, $"Consumer \"{name}\" is behind: lag=00:01:01, LagTimeMax=00:01:00.");
        Assert.Equal(61.0, (await host.CheckHealthAsync()).Entries.Values.Single().Data[$"lagSeconds:{name}"]);
    }

    [Fact]
    public async Task Check_OpenClaim_NamesSlotAndProcess()
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue("orders", o =>
        {
            o.StorePath = host.StorePath;
            o.WatchInterval = TimeSpan.FromMilliseconds(100);
        }).AddHealthChecks().AddMappedFileQueue("orders", health => health.ClaimTimeMax = TimeSpan.Zero);
        await host.StartAsync();
        string sentence = Claim(host);

        Assert.Contains($"process={Environment.ProcessId}", sentence, StringComparison.Ordinal);
    }

    /// <summary>
    /// A user's clock threw once, at a look or before a handler was called. That ended the service, and with it the application.
    /// </summary>
    [Fact]
    public async Task Watch_ClockThrows_ApplicationGoesOnWorking()
    {
        BrokenTime time = new();
        await using TestHost host = MakeHost(o => o.TimeProvider = time);
        host.Services.AddMappedFileConsumer<long, LongHandler>("orders");
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        queue.Producer.Produce(1);
        Eventually.True(() => _script.Messages.Length == 1, "the handler works");
        time.IsBroken = true;
        int before = time.Count;
        // A look takes the time at least once.
        Eventually.True(() => time.Count >= before + 10, "the watch looks again and again");
        queue.Producer.Produce(2);
        Eventually.True(() => _script.Messages.Length == 2, "the handler works all the same");
        time.IsBroken = false;

        Assert.False(host.Provider.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping.IsCancellationRequested);
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
    }

    [Fact]
    public async Task Check_HandlerHangs_NamesIt()
    {
        TaskCompletionSource release = new();
        _script.OnMessage = (_, _, _) => new ValueTask(release.Task);
        await using TestHost host = MakeHost();
        host.Services.AddMappedFileConsumer<long, LongHandler>(
            "orders", o => o.HandlerTimeMax = TimeSpan.FromMilliseconds(1));
        await host.StartAsync();
        host.Get<MappedFileQueue<long>>("orders").Producer.Produce(1);
        string text = host.Log.WaitFor(207);

        await ExpectAsync(host, HealthStatus.Unhealthy, "Handler LongHandler of consumer \"\" has not returned for");
        release.SetResult();
        Assert.Contains("LongHandler does not return: offset=0", text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Check_ConsumerHasStopped_SaysWhy()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Never.");
        await using TestHost host = MakeHost();
        host.Services.AddMappedFileConsumer<long, LongHandler>("orders", o => o.AttemptsMax = 1);
        await host.StartAsync();
        host.Get<MappedFileQueue<long>>("orders").Producer.Produce(1);
        host.Log.WaitFor(206);

        await ExpectAsync(host, HealthStatus.Unhealthy, "Consumer \"\" (LongHandler) has stopped: The handler failed");
    }

    [Fact]
    public async Task Check_FullDisk_IsDegraded()
    {
        await using TestHost host = MakeHost(configureHealth: health => health.FreeBytesMin = long.MaxValue);
        await host.StartAsync();

        await ExpectAsync(host, HealthStatus.Degraded, "The disk is nearly full: free=");
    }

    [Fact]
    [Trait("Category", "Slow")]
    public async Task Check_NothingIsFlushed_IsUnhealthyAfterItsTime()
    {
        Files.ManualTime time = new();
        await using TestHost host = MakeHost(o =>
        {
            o.TimeProvider = time;
            o.FlushInterval = Timeout.InfiniteTimeSpan;
        });
        await host.StartAsync();
        host.Get<MappedFileQueue<long>>("orders").Producer.Produce(1);
        await host.CheckHealthAsync();
        time.Advance(TimeSpan.FromMinutes(2));

        await ExpectAsync(host, HealthStatus.Unhealthy, "Messages have not been flushed for 00:02:00: unflushed=16.");
    }

    [Fact]
    public async Task Check_StoreWasDeleted_IsUnhealthyAndLogged()
    {
        await using TestHost host = MakeHost();
        await host.StartAsync();
        Directory.Move(host.StorePath, host.StorePath + "-gone");

        await ExpectAsync(host, HealthStatus.Unhealthy, "The store cannot be looked at: ");
        host.Log.WaitFor(111);
    }

    [Fact]
    public async Task Check_ConsumerWasDropped_IsUnhealthyAndLogged()
    {
        await using TestHost host = MakeHost(o => o.SegmentSize = 4096);
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>("orders");
        queue.OpenConsumer("audit").Dispose();
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });
        for (int i = 0; i < 1000; i++)
            queue.Producer.Produce(i);
        Assert.True(queue.Trim(8192) > 0);

        await ExpectAsync(host, HealthStatus.Unhealthy, "Consumer \"audit\" was too far behind");
        host.Log.WaitFor(113);
        host.Log.WaitFor(109);
    }

    [Fact]
    public async Task Log_StoreRecoveredAfterPoison_IsTold()
    {
        await using TestHost host = MakeHost();
        using (MappedFileQueue<long> before = new(new MappedFileQueueOptions
        {
            StorePath = host.StorePath,
            Durability = DurabilityLevel.PageCache,
        }.UseDisk(_disk)))
        {
            before.Producer.Produce(1);
            _disk.FailsFlushes = true;
            Assert.ThrowsAny<MappedFileQueueException>(() => before.Flush());
        }

        _disk.FailsFlushes = false;
        await host.StartAsync();

        host.Log.WaitFor(102);
    }

    private static string Claim(TestHost host)
    {
        using MappedFileQueue other = new(new MappedFileQueueOptions { StorePath = host.StorePath });
        using MessageClaim claim = other.Producer.DangerousClaim(100);
        string text = host.Log.WaitFor(112);
        HealthReport report = host.CheckHealthAsync().GetAwaiter().GetResult();
        Assert.Equal(HealthStatus.Degraded, report.Status);
        Assert.Contains(
            "A message that was begun and is not finished blocks all readers", report.Entries.Values.Single().Description,
            StringComparison.Ordinal);
        return text;
    }

    private TestHost MakeHost(
        Action<HostedQueueOptions>? configure = null, Action<QueueHealthOptions>? configureHealth = null)
    {
        TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>("orders", options =>
        {
            options.StorePath = host.StorePath;
            options.WatchInterval = TimeSpan.FromMilliseconds(100);
            options.UseDisk(_disk);
            configure?.Invoke(options);
        });
        host.Services.AddHealthChecks().AddMappedFileQueue("orders", health =>
        {
            health.FreeBytesMin = 0;
            configureHealth?.Invoke(health);
        });
        return host;
    }

    /// <summary>The check itself failed, with the name of an internal type.</summary>
    [Fact]
    public async Task Start_CheckOfNoQueue_SaysWhatIsMissing()
    {
        await using TestHost host = new();
        host.Services.AddMappedFileQueue("orders", options => options.StorePath = host.StorePath);
        host.Services.AddHealthChecks().AddMappedFileQueue("bills");

        Exception error = await Assert.ThrowsAnyAsync<Exception>(host.StartAsync);

        Assert.Contains("A health check needs its queue: name=\"bills\"", error.Message, StringComparison.Ordinal);
    }

    private static async Task ExpectAsync(TestHost host, HealthStatus status, string sentence)
    {
        HealthReport report = await host.CheckHealthAsync();
        Assert.Contains(sentence, report.Entries.Values.Single().Description, StringComparison.Ordinal);
        Assert.Equal(status, report.Status);
    }
}

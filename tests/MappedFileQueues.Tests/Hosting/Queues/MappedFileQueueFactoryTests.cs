using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Tests.Hosting.Queues;

/// <summary>
/// Queues whose names are known at run time only, one for each customer for example: an application had to open them itself,
/// without consumers, health and metrics.
/// </summary>
public sealed class MappedFileQueueFactoryTests
{
    private readonly Script _script = new();

    [Fact]
    public async Task Open_AtRunTime_HasOptionsConsumersHealthAndMetrics()
    {
        string name = $"customer-{Guid.NewGuid():N}";
        await using TestHost host = MakeHost();
        host.Configure(
            ($"MappedFileQueues:{name}:StorePath", host.StorePath),
            ($"MappedFileQueues:{name}:SegmentSize", "65536"),
            ($"MappedFileQueues:{name}:Consumer:AttemptsMax", "1"));
        host.Services.AddHealthChecks().AddMappedFileQueues(health => health.FreeBytesMin = 0);
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();

        MappedFileQueue<long> queue = factory.Open<long>(name);
        await factory.StartConsumerAsync<long, LongHandler>(name);
        await factory.StartBatchConsumerAsync<long, LongBatchHandler>(name, consumer: "audit");
        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(i);
        Eventually.Equal(200, () => _script.Seen.Count);

        Assert.Same(queue, factory.Open<long>(name));
        Assert.Equal(65536, queue.GetInfo().SegmentSize);
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
        Assert.Contains(name, QueuesWithMetrics());
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Never.");
        queue.Producer.Produce(100);
        host.Log.WaitFor(206);
        HealthReport report = await host.CheckHealthAsync();
        Assert.Equal(HealthStatus.Unhealthy, report.Status);
        Assert.Contains($"Queue {name}: Consumer \"", report.Entries.Values.Single().Description, StringComparison.Ordinal);

        Assert.True(await factory.CloseAsync(name, TestContext.Current.CancellationToken));
        Assert.False(await factory.CloseAsync(name, TestContext.Current.CancellationToken));
        Assert.Throws<ObjectDisposedException>(queue.GetInfo);
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
        Assert.DoesNotContain(name, QueuesWithMetrics());
        Assert.NotSame(queue, factory.Open<long>(name));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Stop_WithAMessageInHand_LetsItEndAndCommitsIt(bool closesQueueAlone)
    {
        TaskCompletionSource release = new();
        _script.OnMessage = (message, _, _) => message == "1" ? new ValueTask(release.Task) : default;
        await using TestHost host = MakeHost();
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        await factory.StartConsumerAsync<ByteHandler>("texts");
        foreach (string text in new[] { "0", "1", "2" })
            queue.Producer.Produce(System.Text.Encoding.UTF8.GetBytes(text));
        Eventually.Equal(2, () => _script.Seen.Count);

        Task ending = closesQueueAlone
            ? factory.CloseAsync("texts", TestContext.Current.CancellationToken)
            : host.StopAsync(TestContext.Current.CancellationToken);
        Assert.False(ending.IsCompleted);
        release.SetResult();
        await ending;

        Assert.Equal(["0", "1"], _script.Messages);
        using MappedFileQueue again = new(new MappedFileQueueOptions { StorePath = host.StorePath });
        Assert.Equal(32, again.GetInfo().Consumers.Single().Offset);
    }

    /// <summary>
    /// A close took the queue out of the factory's table before it was closed: nothing waited for the message in hand, and a
    /// second queue of the store could be opened.
    /// </summary>
    [Fact]
    public async Task Close_WithAMessageInHand_EverybodyWaitsForItAndTheNameIsRefused()
    {
        TaskCompletionSource release = new();
        _script.OnMessage = (_, _, _) => new ValueTask(release.Task);
        MappedFileQueueFactory factory;
        await using (TestHost host = MakeHost())
        {
            (factory, MappedFileQueue queue) = await BeginAMessageAsync(host);

            Task<bool> closing = factory.CloseAsync("texts", TestContext.Current.CancellationToken);
            Task<bool> second = factory.CloseAsync("texts", TestContext.Current.CancellationToken);
            Task stopping = host.StopAsync(TestContext.Current.CancellationToken);
            Expect<InvalidOperationException>(() => factory.Open("texts", o => o.StorePath = host.StorePath), "is being closed");
            await ExpectAsync<InvalidOperationException>(
                factory.StartConsumerAsync<ByteHandler>("texts", consumer: "b"), "is closed");
            await Task.Delay(100, TestContext.Current.CancellationToken);
            Assert.False(closing.IsCompleted || second.IsCompleted || stopping.IsCompleted);

            release.SetResult();
            Assert.True(await closing);
            Assert.True(await second);
            await stopping;
            Assert.Throws<ObjectDisposedException>(queue.GetInfo);
            Assert.NotSame(queue, factory.Open("texts", o => o.StorePath = host.StorePath));
        }

        Assert.Throws<ObjectDisposedException>(() => factory.Open("texts"));
    }

    [Fact]
    public async Task Close_SecondCallHasNoPatience_EndsTheHandler()
    {
        _script.OnMessage = (_, _, cancellationToken) =>
            new ValueTask(Task.Delay(TimeSpan.FromMinutes(10), TimeProvider.System, cancellationToken));
        await using TestHost host = MakeHost();
        (MappedFileQueueFactory factory, MappedFileQueue queue) = await BeginAMessageAsync(host);

        Task<bool> closing = factory.CloseAsync("texts", TestContext.Current.CancellationToken);
        Assert.True(await factory.CloseAsync("texts", new CancellationToken(canceled: true)));
        Assert.True(await closing);
        Assert.Throws<ObjectDisposedException>(queue.GetInfo);
    }

    /// <summary>The members before the one that could not be made continued, and no close ended them.</summary>
    [Fact]
    public async Task Start_SecondMemberCannotBeMade_NothingRunsAndItCanBeStartedAgain()
    {
        int made = 0;
        List<Held> held = [];
        await using TestHost host = MakeHost();
        host.Services.AddScoped(_ =>
        {
            held.Add(new Held());
            return held[^1];
        });
        host.Services.AddScoped(services =>
        {
            _ = services.GetRequiredService<Held>();
            return ++made == 2 ? throw new InvalidOperationException("Not this one.") : new ByteHandler(_script);
        });
        host.Services.AddHealthChecks().AddMappedFileQueues(health => health.FreeBytesMin = 0);
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        static void SetGroup(HostedConsumerOptions options) => (options.Group, options.Concurrency) = ("work", 2);

        await ExpectAsync<InvalidOperationException>(
            factory.StartConsumerAsync<ByteHandler>("texts", SetGroup), "Not this one.");
        queue.Producer.Produce("0"u8);

        Assert.DoesNotContain((await host.CheckHealthAsync()).Entries.Values.Single().Data.Keys,
            key => key.StartsWith("texts:consumer:", StringComparison.Ordinal));
        Eventually.True(() => held.TrueForAll(one => one.IsDisposed), "what was made for the handlers is disposed");
        Assert.Empty(_script.Seen);
        await factory.StartConsumerAsync<ByteHandler>("texts", SetGroup);
        Eventually.Equal(1, () => _script.Seen.Count);
    }

    /// <summary>A consumer that had stopped at a message was said to run, until its queue was closed.</summary>
    [Fact]
    public async Task Start_FormerOneHasStopped_BeginsWithTheSameMessage()
    {
        _script.OnMessage = (_, _, _) => throw new InvalidOperationException("Not yet.");
        await using TestHost host = MakeHost();
        host.Services.AddHealthChecks().AddMappedFileQueues(health => health.FreeBytesMin = 0);
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        static void StopAtOnce(HostedConsumerOptions options) =>
            (options.AttemptsMax, options.OnFailure) = (1, HandlerFailureAction.Stop);
        await factory.StartConsumerAsync<ByteHandler>("texts", StopAtOnce);
        queue.Producer.Produce("0"u8);
        host.Log.WaitFor(206);
        Assert.Equal(HealthStatus.Unhealthy, (await host.CheckHealthAsync()).Status);

        _script.OnMessage = (_, _, _) => default;
        await factory.StartConsumerAsync<ByteHandler>("texts", StopAtOnce);

        Eventually.Equal(2, () => _script.Seen.Count);
        Assert.Equal(["0", "0"], _script.Messages);
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);
    }

    /// <summary>Whoever starts a consumer may be a request: its trace and its objects stayed with the consumer.</summary>
    [Theory]
    [InlineData(null)]
    [InlineData("work")]
    public async Task Start_InARequest_ItsContextDoesNotStay(string? group)
    {
        AsyncLocal<string?> context = new();
        ConcurrentQueue<string?> seen = [];
        _script.OnMessage = (_, _, _) =>
        {
            seen.Enqueue(context.Value);
            return default;
        };
        await using TestHost host = MakeHost();
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        context.Value = "request";
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        await factory.StartConsumerAsync<ByteHandler>("texts", options => options.Group = group);
        queue.Producer.Produce("0"u8);
        Eventually.Equal(1, () => seen.Count);

        Assert.Null(seen.Single());
        Assert.Equal("request", context.Value);
    }

    /// <summary>A consumer that was ended before a thread had begun it kept its handler and its scope.</summary>
    [Fact]
    public async Task Close_RightAfterTheStart_DisposesTheHandler()
    {
        int made = 0;
        int disposed = 0;
        await using TestHost host = MakeHost();
        host.Services.AddScoped(_ =>
        {
            Interlocked.Increment(ref made);
            return new Held { OnDisposed = () => Interlocked.Increment(ref disposed) };
        });
        host.Services.AddScoped(services =>
        {
            _ = services.GetRequiredService<Held>();
            return new ByteHandler(_script);
        });
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        for (int i = 0; i < 100; i++)
        {
            factory.Open("texts", o => o.StorePath = host.StorePath);
            await factory.StartConsumerAsync<ByteHandler>("texts", options => options.ScopePerCall = false);
            await factory.CloseAsync("texts", TestContext.Current.CancellationToken);
        }

        Assert.Equal(100, made);
        Assert.Equal(100, disposed);
    }

    /// <summary>A handler that is being made, and waits for something, kept the application from its end.</summary>
    [Fact]
    public async Task Close_AStartIsStuckAndThereIsNoPatience_ClosesAndTheStartIsRefused()
    {
        using ManualResetEventSlim isMaking = new();
        using ManualResetEventSlim mayMake = new();
        await using TestHost host = MakeHost();
        host.Services.AddScoped(_ =>
        {
            isMaking.Set();
            mayMake.Wait();
            return new ByteHandler(_script);
        });
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        Task start = Task.Run(() => factory.StartConsumerAsync<ByteHandler>("texts"), TestContext.Current.CancellationToken);
        Assert.True(isMaking.Wait(Eventually.DefaultDeadline, TestContext.Current.CancellationToken));

        bool isClosed = await factory.CloseAsync("texts", new CancellationToken(canceled: true))
            .WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);
        Assert.True(isClosed);
        Assert.Throws<ObjectDisposedException>(queue.GetInfo);
        mayMake.Set();

        await ExpectAsync<InvalidOperationException>(start, "is closed");
        Assert.Equal(0, host.Log.CountOf(206));
    }

    /// <summary>The section was taken without a word, and nobody read it.</summary>
    [Fact]
    public async Task Health_QueueHasASectionOfItsOwn_CountsForThatQueue()
    {
        await using TestHost host = MakeHost();
        host.Configure(
            ("MappedFileQueues:texts:StorePath", host.StorePath + "-texts"),
            ("MappedFileQueues:texts:Health:FreeBytesMin", $"{long.MaxValue}"),
            ("MappedFileQueues:orders:StorePath", host.StorePath + "-orders"),
            ("MappedFileQueues:orders:Health:ClaimTimeMax", "-1"),
            ("MappedFileQueues:calm:StorePath", host.StorePath + "-calm"),
            ("MappedFileQueues:calm:Health:FreeBytesMin", "0"));
        host.Services.AddHealthChecks().AddMappedFileQueues();
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        factory.Open("calm");
        Assert.Equal(HealthStatus.Healthy, (await host.CheckHealthAsync()).Status);

        factory.Open("texts");
        Assert.Equal(HealthStatus.Degraded, (await host.CheckHealthAsync()).Status);
        factory.Open("orders");
        HealthReport report = await host.CheckHealthAsync();

        Assert.Equal(HealthStatus.Unhealthy, report.Status);
        string text = report.Entries.Values.Single().Description!;
        Assert.Contains("Queue texts: The disk is nearly full", text, StringComparison.Ordinal);
        Assert.Contains("Queue orders: MappedFileQueues:orders:Health:ClaimTimeMax", text, StringComparison.Ordinal);
        Assert.DoesNotContain("calm", text, StringComparison.Ordinal);
    }

    /// <summary>A provider of the application's log that throws is no reason to be without a queue.</summary>
    [Fact]
    public async Task Open_LogThrowsWhenAskedWhetherItIsOn_Opens()
    {
        using TempStore store = new();
        await using ServiceProvider services = new ServiceCollection()
            .AddLogging(logging => logging.AddProvider(new BrokenLog())).AddMappedFileQueueFactory().BuildServiceProvider();
        MappedFileQueueFactory factory = services.GetRequiredService<MappedFileQueueFactory>();

        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = store.StorePath);

        queue.Producer.Produce("0"u8);
        Assert.True(queue.GetInfo().PublishedOffset > 0);
    }

    /// <summary>A callback on the handler's token threw: that came out of the close, and the queue stayed open.</summary>
    [Fact]
    public async Task Close_CallbackOfAHandlerThrows_TheQueueIsClosed()
    {
        TaskCompletionSource release = new();
        _script.OnMessage = (_, _, cancellationToken) =>
        {
            cancellationToken.Register(() => throw new InvalidOperationException("Not this one either."));
            return new ValueTask(release.Task);
        };
        await using TestHost host = MakeHost();
        (MappedFileQueueFactory factory, MappedFileQueue queue) = await BeginAMessageAsync(host);

        Assert.True(await factory.CloseAsync("texts", new CancellationToken(canceled: true)));

        Assert.Throws<ObjectDisposedException>(queue.GetInfo);
        release.SetResult();
    }

    [Fact]
    public async Task Start_WhatCannotBe_SaysWhyAndLeavesNothing()
    {
        await using TestHost host = MakeHost();
        host.Services.AddMappedFileQueue<long>("orders", o => o.StorePath = host.StorePath);
        host.Services.AddHealthChecks().AddMappedFileQueues(health => health.FreeBytesMin = 0);
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        string path = host.StorePath + "-texts";

        Expect<OptionsValidationException>(
            () => factory.Open("texts", o => (o.StorePath, o.SegmentSize) = (path, 0)), "MappedFileQueues:texts:SegmentSize");
        Assert.False(Directory.Exists(path));
        Expect<InvalidOperationException>(() => factory.Open<long>("orders"), "was added at the start: name=\"orders\"");
        await ExpectAsync<InvalidOperationException>(factory.StartConsumerAsync<ByteHandler>("texts"), "Open it before.");
        factory.Open("texts", o => o.StorePath = path);
        Expect<InvalidOperationException>(() => factory.Open<long>("texts"), "is open with other messages");
        await ExpectAsync<InvalidOperationException>(
            factory.StartConsumerAsync<long, LongHandler>("texts"), "its queue holds messages of any length");
        await ExpectAsync<OptionsValidationException>(
            factory.StartConsumerAsync<ByteHandler>("texts", o => o.AttemptsMax = 0), "texts:Consumer:AttemptsMax must be");
        await ExpectAsync<InvalidOperationException>(
            factory.StartBatchConsumerAsync<ByteBatchHandler>("texts"), nameof(ByteBatchHandler));
        Assert.DoesNotContain((await host.CheckHealthAsync()).Entries.Values.Single().Data.Keys,
            key => key.StartsWith("texts:consumer:", StringComparison.Ordinal));
        await factory.StartConsumerAsync<string, TextHandler>("texts", new TextDeserializer(), consumer: "audit");
        await ExpectAsync<InvalidOperationException>(
            factory.StartConsumerAsync<ByteHandler>("texts", consumer: "Audit"), "runs already");
    }

    private sealed class Held : IDisposable
    {
        public bool IsDisposed { get; private set; }

        public Action? OnDisposed { get; init; }

        public void Dispose()
        {
            IsDisposed = true;
            OnDisposed?.Invoke();
        }
    }

    private sealed class BrokenLog : ILoggerProvider, ILogger
    {
        public ILogger CreateLogger(string categoryName) => this;

        public bool IsEnabled(LogLevel logLevel) => throw new InvalidOperationException("Broken.");

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            throw new InvalidOperationException("Broken.");

        public void Dispose()
        {
        }
    }

    private TestHost MakeHost()
    {
        TestHost host = new();
        host.Services.AddMappedFileQueueFactory().AddSingleton(_script)
            .AddScoped<LongHandler>().AddScoped<LongBatchHandler>().AddScoped<ByteHandler>().AddScoped<TextHandler>();
        return host;
    }

    /// <summary>The queue "texts" with a consumer whose handler has been given its message.</summary>
    private async Task<(MappedFileQueueFactory Factory, MappedFileQueue Queue)> BeginAMessageAsync(TestHost host)
    {
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        await factory.StartConsumerAsync<ByteHandler>("texts");
        queue.Producer.Produce("0"u8);
        Eventually.Equal(1, () => _script.Seen.Count);
        return (factory, queue);
    }

    private static HashSet<string> QueuesWithMetrics()
    {
        HashSet<string> names = [];
        using MeterListener listener = new();
        listener.InstrumentPublished = (instrument, self) =>
        {
            if (instrument.Meter.Name == "MappedFileQueues" && instrument.Name == "mappedfilequeues.store.size")
                self.EnableMeasurementEvents(instrument);
        };
        listener.SetMeasurementEventCallback<long>((_, _, tags, _) =>
        {
            foreach ((string key, object? value) in tags)
            {
                if (key == "messaging.destination.name")
                    names.Add($"{value}");
            }
        });
        listener.Start();
        listener.RecordObservableInstruments();
        return names;
    }

    private static void Expect<TException>(Func<object> call, string part)
        where TException : Exception => Assert.Contains(part, Assert.Throws<TException>(call).Message, StringComparison.Ordinal);

    private static async Task ExpectAsync<TException>(Task call, string part)
        where TException : Exception =>
        Assert.Contains(part, (await Assert.ThrowsAsync<TException>(() => call)).Message, StringComparison.Ordinal);
}

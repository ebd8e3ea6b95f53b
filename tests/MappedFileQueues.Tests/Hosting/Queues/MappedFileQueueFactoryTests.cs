using System.Diagnostics.Metrics;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
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
        await host.StartAsync();
        MappedFileQueueFactory factory = host.Provider.GetRequiredService<MappedFileQueueFactory>();
        MappedFileQueue queue = factory.Open("texts", o => o.StorePath = host.StorePath);
        await factory.StartConsumerAsync<ByteHandler>("texts");
        queue.Producer.Produce("0"u8);
        Eventually.Equal(1, () => _script.Seen.Count);

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

    private TestHost MakeHost()
    {
        TestHost host = new();
        host.Services.AddMappedFileQueueFactory().AddSingleton(_script)
            .AddScoped<LongHandler>().AddScoped<LongBatchHandler>().AddScoped<ByteHandler>().AddScoped<TextHandler>();
        return host;
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

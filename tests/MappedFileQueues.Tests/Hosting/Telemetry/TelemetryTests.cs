using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;
using OpenTelemetry;
using OpenTelemetry.Exporter;
using OpenTelemetry.Metrics;
using OpenTelemetry.Trace;

namespace MappedFileQueues.Tests.Hosting.Telemetry;

/// <summary>
/// What a collector receives of an application with a queue, through OpenTelemetry's own exporter. Alone: OpenTelemetry takes
/// instruments of one name in two meters of one name for one. When the application of another test ended, and its meter with it,
/// nothing of this one's was exported any more.
/// </summary>
[Collection(AloneCollection.Name)]
public sealed class TelemetryTests
{
    private readonly Script _script = new();

    [Fact]
    public async Task Export_AfterMessages_ACollectorHasThemByTheConventionsNames()
    {
        using OtlpReceiver receiver = new();
        using MeterProvider meters = Sdk.CreateMeterProviderBuilder().AddMeter("MappedFileQueues")
            .AddOtlpExporter((exporter, reader) =>
            {
                exporter.Endpoint = new Uri(receiver.Address + "v1/metrics");
                exporter.Protocol = OtlpExportProtocol.HttpProtobuf;
                reader.PeriodicExportingMetricReaderOptions.ExportIntervalMilliseconds = int.MaxValue;
            }).Build();
        using TracerProvider traces = Sdk.CreateTracerProviderBuilder().AddSource("MappedFileQueues")
            .AddOtlpExporter(exporter =>
            {
                exporter.Endpoint = new Uri(receiver.Address + "v1/traces");
                exporter.Protocol = OtlpExportProtocol.HttpProtobuf;
            }).Build();
        string queueName = $"orders-{Guid.NewGuid():N}";
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>(queueName, o => (o.StorePath, o.SegmentSize) = (host.StorePath, 4096))
            .AddMappedFileConsumer<long, LongHandler>(queueName);
        await host.StartAsync();
        MappedFileQueue<long> queue = host.Get<MappedFileQueue<long>>(queueName);
        queue.OpenConsumer("audit").Dispose();
        for (int i = 0; i < 1000; i++)
            queue.Producer.Produce(i);
        queue.Flush();
        Eventually.Equal(1000, () => _script.Seen.Count);
        await host.StopAsync();
        // The look of the last export may serve for a second, and what it sees first has no age.
        Eventually.True(
            () =>
            {
                Assert.True(meters.ForceFlush(30_000));
                return receiver.Metrics.Any(metric =>
                    metric.Name == "mappedfilequeues.consumer.lag.time" && Is(metric.Tags, queueName) && metric.Value > 0);
            },
            "the age of the lag is reported");
        Assert.True(traces.ForceFlush(30_000));

        MappedFileQueueInfo info = queue.GetInfo();
        string store = $"mappedfilequeues.store.id={info.StoreId}";
        Expect("messaging.client.sent.messages", "{message}", 1000, "messaging.operation.name=send", store);
        Expect("messaging.client.consumed.messages", "{message}", 1000, "messaging.operation.name=receive");
        Expect("messaging.process.duration", "s", 1000, "messaging.operation.name=process", "messaging.consumer.group.name=");
        Expect("messaging.client.operation.duration", "s", 1000, "messaging.operation.name=commit");
        Expect("mappedfilequeues.store.appended", "By", info.PublishedOffset, store);
        Expect("mappedfilequeues.store.unflushed", "By", 0, store);
        Expect("mappedfilequeues.store.poisoned", "1", 0, store);
        Expect("mappedfilequeues.store.open_claims", "{claim}", 0, store);
        Expect("mappedfilequeues.store.repaired", "{claim}", 0, store);
        Expect("mappedfilequeues.consumer.lag", "By", info.PublishedOffset, "messaging.consumer.group.name=audit", store);
        Expect("mappedfilequeues.consumer.lag", "By", 0, "messaging.consumer.group.name=", store);
        Expect("mappedfilequeues.lock.long_waits", "{wait}", 0);
        Assert.True(Last("mappedfilequeues.consumer.lag.time", "s", "messaging.consumer.group.name=audit") > 0);
        Assert.True(Last("mappedfilequeues.flushes", "{flush}") >= 1);
        Assert.True(Last("mappedfilequeues.flush.time", "s") > 0);
        Assert.True(Last("mappedfilequeues.store.size", "By", store) >= 4096);
        Assert.True(Last("mappedfilequeues.store.disk.free", "By", store) > 0);
        OtlpReceiver.Span first = receiver.Spans.First(span => Is(span.Tags, queueName));
        Assert.Equal($"process {queueName}", first.Name);
        Assert.Equal(5ul, first.Kind); // SPAN_KIND_CONSUMER
        Assert.Contains("messaging.operation.type=process", first.Tags);
        Assert.Contains("mappedfilequeues.offset=0", first.Tags);

        void Expect(string metric, string unit, double value, params string[] tags) =>
            Assert.Equal(value, Last(metric, unit, tags));

        double Last(string metric, string unit, params string[] tags) => Assert.NotNull(receiver.Metrics
            .Where(received => received.Name == metric && received.Unit == unit && Is(received.Tags, queueName)
                && tags.All(received.Tags.Contains))
            .Select(received => (double?)received.Value).LastOrDefault());
    }

    /// <summary>Only a consumer made the meter: an application that produces alone exported nothing.</summary>
    [Theory]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    public async Task ReportStore_False_LeavesTheStoreToOthers(bool reportsStore, bool hasConsumer)
    {
        HashSet<string> seen = [];
        using System.Diagnostics.Metrics.MeterListener listener = new();
        string queueName = $"orders-{Guid.NewGuid():N}";
        listener.InstrumentPublished = (instrument, self) =>
        {
            if (instrument.Meter.Name == "MappedFileQueues")
                self.EnableMeasurementEvents(instrument);
        };
        listener.SetMeasurementEventCallback<long>((instrument, _, tags, _) => Note(instrument.Name, tags));
        listener.SetMeasurementEventCallback<double>((instrument, _, tags, _) => Note(instrument.Name, tags));
        listener.Start();
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>(queueName, o => (o.StorePath, o.ReportStore) = (host.StorePath, reportsStore));
        if (hasConsumer)
            host.Services.AddMappedFileConsumer<long, LongHandler>(queueName);
        await host.StartAsync();

        listener.RecordObservableInstruments();

        Assert.Contains("mappedfilequeues.flushes", seen);
        Assert.Equal(reportsStore, seen.Contains("mappedfilequeues.store.size"));
        // Nothing was sent.
        Assert.DoesNotContain("messaging.client.sent.messages", seen);

        void Note(string name, ReadOnlySpan<KeyValuePair<string, object?>> tags)
        {
            foreach ((string key, object? value) in tags)
            {
                if (key == "messaging.destination.name" && queueName.Equals(value))
                    seen.Add(name);
            }
        }
    }

    /// <summary>No dashboard showed that messages were set aside: the log told it, and health only what waits now.</summary>
    [Fact]
    public async Task DeadLetter_EachMessage_IsCountedWithQueueConsumerAndError()
    {
        List<(long Count, string Tags)> seen = [];
        using System.Diagnostics.Metrics.MeterListener listener = new();
        string queueName = $"orders-{Guid.NewGuid():N}";
        listener.InstrumentPublished = (instrument, self) =>
        {
            if (instrument is { Meter.Name: "MappedFileQueues", Name: "mappedfilequeues.consumer.dead_letters" })
                self.EnableMeasurementEvents(instrument);
        };
        listener.SetMeasurementEventCallback<long>((_, count, tags, _) =>
        {
            string text = string.Join(' ', tags.ToArray().Select(tag => $"{tag.Key}={tag.Value}").Order());
            lock (seen)
                seen.Add((count, text));
        });
        listener.Start();
        _script.OnMessage = (message, _, _) => message == "2" ? throw new TimeoutException() : default;
        await using TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue<long>(queueName, o => o.StorePath = host.StorePath)
            .AddMappedFileConsumer<long, LongHandler>(
                queueName,
                o => (o.OnFailure, o.AttemptsMax, o.IsTransient) = (HandlerFailureAction.DeadLetter, 1, _ => false),
                consumer: "billing");
        await host.StartAsync();
        host.Get<MappedFileQueue<long>>(queueName).Producer.ProduceBatch([1, 2, 3]);

        Eventually.Equal(3, () => _script.Seen.Count);

        Assert.Equal(
            (1, "error.type=System.TimeoutException messaging.consumer.group.name=billing "
                + $"messaging.destination.name={queueName} messaging.operation.name=process "
                + "messaging.system=mappedfilequeues"),
            Assert.Single(seen));
    }

    private static bool Is(string[] tags, string queue) => tags.Contains($"messaging.destination.name={queue}");
}

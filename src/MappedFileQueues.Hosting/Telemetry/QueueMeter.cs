using System.Diagnostics;
using System.Diagnostics.Metrics;
using MappedFileQueues.Hosting.Queues;
using Microsoft.Extensions.DependencyInjection;

namespace MappedFileQueues.Hosting.Telemetry;

/// <summary>
/// The meter and the source of activities `MappedFileQueues`, named as OpenTelemetry's conventions for messaging say. What the
/// store tells is read from its files when somebody asks: nothing is added to the path of a message.
/// </summary>
internal sealed class QueueMeter : IDisposable
{
    public const string Name = "MappedFileQueues";

    public const string System = "mappedfilequeues";

    public static readonly ActivitySource Activities = new(Name);

    /// <summary>One look serves all instruments of a collection.</summary>
    private static readonly TimeSpan LookAgeMax = TimeSpan.FromSeconds(1);

    private readonly NamedQueue[] _added;
    private readonly MappedFileQueueFactory _factory;
    private readonly Meter _meter;
    private readonly Counter<long> _consumed;
    private readonly Histogram<double> _process;
    private readonly Histogram<double> _operation;
    private readonly Counter<long> _deadLetters;

    public QueueMeter(IServiceProvider services, IEnumerable<AddedQueue> queues, IMeterFactory? factory = null)
    {
        _added = [.. queues.Select(queue => services.GetRequiredKeyedService<NamedQueue>(queue.Name))];
        _factory = services.GetRequiredService<MappedFileQueueFactory>();
        _meter = factory?.Create(new MeterOptions(Name)) ?? new Meter(Name);
        _consumed = _meter.CreateCounter<long>(
            "messaging.client.consumed.messages", "{message}", "Messages that handlers of this process are done with.");
        _process = _meter.CreateHistogram(
            "messaging.process.duration", "s", "How long a handler took for a message or a batch.", null, Buckets());
        _operation = _meter.CreateHistogram(
            "messaging.client.operation.duration", "s", "How long a commit took.", null, Buckets());
        _deadLetters = _meter.CreateCounter<long>(
            $"{System}.consumer.dead_letters", "{message}", "Messages that consumers of this process gave to the dead letters.");
        ObserveStore();
        ObserveConsumers();
        ObserveQueue();
    }

    private IEnumerable<NamedQueue> Queues => _added.Concat(_factory.Queues);

    public ConsumerMeter ForConsumer(string queue, string consumer) =>
        new(queue, consumer, _consumed, _process, _operation, _deadLetters);

    public void Dispose() => _meter.Dispose();

    private static InstrumentAdvice<double> Buckets() => new()
    {
        HistogramBucketBoundaries = [0.000_001, 0.000_01, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60],
    };

    private void ObserveStore()
    {
        _meter.CreateObservableCounter(
            "messaging.client.sent.messages",
            () => FromStores(static look => look.Info!.AppendedMessages, new("messaging.operation.name", "send")),
            "{message}", "Messages that all processes have appended, as flushes count them.");
        Store("appended", "By", "The length of the log since the store was made, headers and padding included.",
            static look => look.Info!.PublishedOffset, isCounter: true);
        Store("repaired", "{claim}", "Messages that dead producers had begun and that were given up.",
            static look => look.Info!.RepairCount, isCounter: true);
        Store("unflushed", "By", "What is appended and not on disk yet.",
            static look => look.Info!.TailOffset - look.Info.ConfirmedOffset);
        Store("size", "By", "The disk space of the store.", static look => look.Info!.BytesOnDisk);
        Store("disk.free", "By", "The free space of the store's disk.", static look => look.FreeBytes);
        Store("open_claims", "{claim}", "Messages that were begun and are not finished.",
            static look => look.Info!.OpenClaims.Count);
        Store("poisoned", "1", "1 after a flush has failed.", static look => look.Info!.IsPoisoned ? 1 : 0);
    }

    private void Store(string name, string unit, string description, Func<StoreLook, long?> value, bool isCounter = false)
    {
        name = $"{System}.store.{name}";
        if (isCounter)
            _meter.CreateObservableCounter(name, () => FromStores(value), unit, description);
        else
            _meter.CreateObservableGauge(name, () => FromStores(value), unit, description);
    }

    private void ObserveConsumers()
    {
        _meter.CreateObservableGauge(
            $"{System}.consumer.lag", () => FromConsumers(static lag => lag.Bytes),
            "By", "What a consumer has not committed, headers and padding included.");
        _meter.CreateObservableGauge(
            $"{System}.consumer.lag.time", () => FromConsumers(static lag => lag.Time.TotalSeconds),
            "s", "How long a consumer's oldest message has been there.");
    }

    private void ObserveQueue()
    {
        _meter.CreateObservableCounter(
            $"{System}.flushes", () => FromQueues(static statistics => statistics.FlushCount), "{flush}",
            "Flushes that this process made.");
        _meter.CreateObservableCounter(
            $"{System}.flush.time", () => FromQueues(static statistics => statistics.FlushDuration.TotalSeconds), "s",
            "The time that they took.");
        _meter.CreateObservableCounter(
            $"{System}.lock.long_waits", () => FromQueues(static statistics => statistics.LongLockWaitCount), "{wait}",
            "Waits of a second or more for a lock of the store.");
    }

    private IEnumerable<Measurement<long>> FromStores(
        Func<StoreLook, long?> value, KeyValuePair<string, object?> tag = default)
    {
        foreach ((NamedQueue queue, StoreLook look) in Looks())
        {
            if (value(look) is { } measured)
                yield return new Measurement<long>(measured, Tags(queue, look, tag));
        }
    }

    private IEnumerable<Measurement<T>> FromConsumers<T>(Func<LagLook, T> value)
        where T : struct
    {
        foreach ((NamedQueue queue, StoreLook look) in Looks())
        {
            foreach (LagLook lag in look.Lags)
                yield return new Measurement<T>(value(lag), Tags(queue, look, new("messaging.consumer.group.name", lag.Name)));
        }
    }

    private IEnumerable<Measurement<T>> FromQueues<T>(Func<MappedFileQueueStatistics, T> value)
        where T : struct
    {
        foreach (NamedQueue queue in Queues)
        {
            if (queue.Watch.Look(LookAgeMax)?.Statistics is { } statistics)
                yield return new Measurement<T>(
                    value(statistics), new("messaging.system", System), new("messaging.destination.name", queue.Name));
        }
    }

    private IEnumerable<(NamedQueue Queue, StoreLook Look)> Looks()
    {
        foreach (NamedQueue queue in Queues)
        {
            if (queue.Options.ReportStore && queue.Watch.Look(LookAgeMax) is { Info: not null } look)
                yield return (queue, look);
        }
    }

    private static KeyValuePair<string, object?>[] Tags(NamedQueue queue, StoreLook look, KeyValuePair<string, object?> further)
    {
        KeyValuePair<string, object?>[] tags =
        [
            new("messaging.system", System),
            new("messaging.destination.name", queue.Name),
            new($"{System}.store.id", look.Info!.StoreId.ToString()),
        ];
        return further.Key is null ? tags : [.. tags, further];
    }
}

using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace MappedFileQueues.Hosting.Telemetry;

/// <summary>
/// Counts and times what one consumer does, once for each call of its handler. Costs a branch while nobody listens.
/// </summary>
internal sealed class ConsumerMeter
{
    private readonly Counter<long> _consumed;
    private readonly Histogram<double> _process;
    private readonly Histogram<double> _operation;
    private readonly Counter<long> _deadLetters;
    private readonly string _queue;
    private readonly string _consumer;
    private readonly KeyValuePair<string, object?>[] _processTags;
    private readonly KeyValuePair<string, object?>[] _consumedTags;
    private readonly KeyValuePair<string, object?>[] _commitTags;
    private ActivityContext _trace;

    public ConsumerMeter(
        string queue, string consumer, Counter<long> consumed, Histogram<double> process, Histogram<double> operation,
        Counter<long> deadLetters)
    {
        (_queue, _consumer, _consumed, _process, _operation) = (queue, consumer, consumed, process, operation);
        _deadLetters = deadLetters;
        _processTags = Tags("process");
        _consumedTags = Tags("receive");
        _commitTags = Tags("commit");
    }

    public bool TimesCommits => _operation.Enabled;

    /// <summary>
    /// An activity for a call of the handler; null when nobody listens. It continues the trace in the message's headers. Without
    /// one, the first attempt begins a trace, whatever the thread was about, and the further ones have no parent either in the
    /// same trace: they are siblings. A batch has links to the traces of its messages.
    /// </summary>
    public Activity? StartActivity(ConsumeContext context)
    {
        if (!QueueMeter.Activities.HasListeners())
            return null;
        Activity.Current = null;
        if (context.Attempt == 1)
            _trace = context.Headers?.TraceContext ?? default;
        Activity? activity = QueueMeter.Activities.StartActivity(
            $"process {_queue}", ActivityKind.Consumer, _trace, links: context.Links);
        if (activity is null)
            return null;
        // A sampler decides at the first attempt, and its decision goes with the trace.
        if (_trace == default)
            _trace = new ActivityContext(activity.TraceId, default, activity.ActivityTraceFlags);
        foreach ((string key, object? value) in _processTags)
            activity.SetTag(key, value);
        activity.SetTag("messaging.operation.type", "process");
        activity.SetTag($"{QueueMeter.System}.offset", context.Offset);
        activity.SetTag($"{QueueMeter.System}.attempt", context.Attempt);
        if (context.DeliveryCount > 0)
            activity.SetTag($"{QueueMeter.System}.delivery_count", context.DeliveryCount);
        return activity;
    }

    /// <summary>The handler has returned or thrown.</summary>
    public void Processed(TimeSpan time, Exception? error)
    {
        if (!_process.Enabled)
            return;
        if (error is null)
            _process.Record(time.TotalSeconds, _processTags);
        else
            _process.Record(time.TotalSeconds, [.. _processTags, new("error.type", error.GetType().FullName)]);
    }

    /// <summary>Messages were committed.</summary>
    public void Consumed(int count)
    {
        if (_consumed.Enabled)
            _consumed.Add(count, _consumedTags);
    }

    /// <summary>A message went to the dead letters.</summary>
    public void DeadLettered(string errorType)
    {
        if (_deadLetters.Enabled)
            _deadLetters.Add(1, [.. _processTags, new("error.type", errorType)]);
    }

    public void Committed(TimeSpan time) => _operation.Record(time.TotalSeconds, _commitTags);

    private KeyValuePair<string, object?>[] Tags(string operation) =>
    [
        new("messaging.system", QueueMeter.System),
        new("messaging.operation.name", operation),
        new("messaging.destination.name", _queue),
        new("messaging.consumer.group.name", _consumer),
    ];
}

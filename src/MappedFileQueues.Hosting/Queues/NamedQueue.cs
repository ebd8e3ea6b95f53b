using System.Collections.Concurrent;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Telemetry;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>
/// One queue of the application, by its name: its options, what looks at it, and the consumers that run on it. The container
/// opens the queue through it and disposes the queue itself.
/// </summary>
internal sealed class NamedQueue
{
    private readonly Lock _lock = new();
    private readonly List<ConsumerState> _consumers = [];

    public NamedQueue(string name, HostedQueueOptions options, ILogger logger)
    {
        Name = name;
        Options = options;
        Clock = GuardedClock.Of(options.TimeProvider);
        options.StampTraceContext |= options.PropagateTraces;
        // A queue that is opened on first use may find the process in another folder.
        options.StorePath = SystemPath.Full(options.StorePath);
        Logger = new QuietLogger(logger);
        Watch = new StoreWatch(this);
    }

    public string Name { get; }

    public HostedQueueOptions Options { get; }

    /// <summary>
    /// The clock of what watches the queue and calls the handlers. An exception of the user's clock would end the application.
    /// </summary>
    public TimeProvider Clock { get; }

    public ILogger Logger { get; }

    public StoreWatch Watch { get; }

    /// <summary>Where the dead letters of its consumers go; the values mean nothing.</summary>
    public ConcurrentDictionary<string, bool> DeadLetterPaths { get; } = new(StringComparer.Ordinal);

    /// <summary>The store's state; null until the queue is open.</summary>
    public Func<MappedFileQueueInfo>? GetInfo { get; private set; }

    /// <summary>The queue's own counters; null until it is open.</summary>
    public Func<MappedFileQueueStatistics>? GetStatistics { get; private set; }

    /// <summary>The store at the last look that succeeded, for what does not change while the queue is open.</summary>
    public MappedFileQueueInfo LastInfo => Watch.Look(TimeSpan.MaxValue)?.Info ?? GetInfo!();

    public IReadOnlyList<ConsumerState> Consumers
    {
        get
        {
            lock (_lock)
                return [.. _consumers];
        }
    }

    public void Add(ConsumerState consumer)
    {
        lock (_lock)
            _consumers.Add(consumer);
    }

    public void Remove(ConsumerState consumer)
    {
        lock (_lock)
            _consumers.Remove(consumer);
    }

    public MappedFileQueue Open()
    {
        var queue = new MappedFileQueue(Options);
        queue.CorruptionSkipped += (_, skipped) => Tell(skipped);
        queue.MessagesSkipped += (_, skipped) => Tell(skipped);
        queue.SegmentDeleting += (_, deleting) => Tell(deleting);
        Note(queue.GetInfo, queue.GetStatistics);
        return queue;
    }

    public MappedFileQueue<T> Open<T>()
        where T : unmanaged
    {
        var queue = new MappedFileQueue<T>(Options);
        queue.CorruptionSkipped += (_, skipped) => Tell(skipped);
        queue.MessagesSkipped += (_, skipped) => Tell(skipped);
        queue.SegmentDeleting += (_, deleting) => Tell(deleting);
        Note(queue.GetInfo, queue.GetStatistics);
        return queue;
    }

    private void Note(Func<MappedFileQueueInfo> getInfo, Func<MappedFileQueueStatistics> getStatistics)
    {
        MappedFileQueueStatistics statistics = getStatistics();
        (GetStatistics, GetInfo) = (getStatistics, getInfo);
        Logger.QueueOpened(Name, Options.StorePath);
        if (statistics.RecoveredAfterPowerLoss)
            Logger.RecoveredAfterPowerLoss(Name, Options.StorePath);
        if (statistics.RepairedAtOpening > 0)
            Logger.ClaimsRepaired(Name, statistics.RepairedAtOpening);
        Watch.Look(TimeSpan.Zero);
    }

    private void Tell(CorruptionSkippedEventArgs skipped) => Logger.CorruptionSkipped(
        skipped.Error, Name, skipped.ConsumerName, skipped.File, skipped.Offset, skipped.NextOffset, skipped.SkippedLength);

    private void Tell(MessagesSkippedEventArgs skipped) => Logger.MessagesSkipped(
        Name, skipped.ConsumerName, skipped.Offset, skipped.NextOffset, skipped.SkippedLength);

    private void Tell(SegmentDeletingEventArgs deleting) =>
        Logger.SegmentRemoved(Name, deleting.Path, deleting.Offset, deleting.EndOffset);
}

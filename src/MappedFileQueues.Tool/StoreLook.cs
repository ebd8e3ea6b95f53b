namespace MappedFileQueues.Tool;

/// <summary>Looks at a store from outside, without leaving a trace.</summary>
internal static class StoreLook
{
    /// <summary>How much of a log is counted without being asked: a second's work, when it has to come from a disk.</summary>
    private const long CountedMax = 256L << 20;

    /// <summary>A snapshot of the store.</summary>
    public static MappedFileQueueInfo Info(string storePath) => StoreInspector.Inspect(storePath);

    /// <summary>The same with its messages counted, if there are few or if it is asked for.</summary>
    public static MappedFileQueueInfo InfoWithCounts(string storePath, bool countsAlways)
    {
        MappedFileQueueInfo info = Info(storePath);
        return countsAlways || info.PublishedOffset - info.OldestOffset <= CountedMax
            ? StoreInspector.Inspect(storePath, countsMessages: true)
            : info;
    }

    /// <summary>
    /// Where a consumer of that name would begin now: at its stored offset or, if there is none, at the first message.
    /// </summary>
    public static QueueStart StartOf(string storePath, string consumer)
    {
        MappedFileConsumerInfo? stored = Info(storePath).Consumers
            .FirstOrDefault(candidate => candidate.Name.Equals(consumer, StringComparison.OrdinalIgnoreCase));
        return stored is null ? QueueStart.Earliest : QueueStart.FromOffset(stored.Offset);
    }
}

namespace MappedFileQueues.Tool;

/// <summary>Looks at a store from outside, without leaving a trace.</summary>
internal static class StoreLook
{
    /// <summary>A snapshot of the store.</summary>
    public static MappedFileQueueInfo Info(string storePath) => StoreInspector.Inspect(storePath);

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

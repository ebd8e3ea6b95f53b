using MappedFileQueues.Inspection;
using MappedFileQueues.Platform;


namespace MappedFileQueues;

/// <summary>Inspects a store without attaching to it or changing it.</summary>
public static class StoreInspector
{
    /// <summary>The state of the store now, read from its files.</summary>
    /// <param name="storePath">The store's directory.</param>
    /// <returns>The state.</returns>
    /// <exception cref="QueueNotFoundException">There is no store.</exception>
    /// <exception cref="QueueDiskException">Permission to read the store is missing.</exception>
    /// <exception cref="QueueFormatException">The store's meta page is damaged or of another version.</exception>
    public static MappedFileQueueInfo Inspect(string storePath) => Inspect(storePath, countsMessages: false);

    /// <inheritdoc cref="Inspect(string)"/>
    /// <param name="storePath">The store's directory.</param>
    /// <param name="countsMessages">As in <see cref="MappedFileQueue.GetInfo(bool)"/>.</param>
    public static MappedFileQueueInfo Inspect(string storePath, bool countsMessages)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(storePath);
        using var store = ReadOnlyStore.Open(SystemPath.Full(storePath), verifiesChecksum: false);
        return store.GatherInfo(countsMessages);
    }
}

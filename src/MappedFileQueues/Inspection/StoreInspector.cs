using MappedFileQueues.Inspection;


namespace MappedFileQueues;

/// <summary>Looks at a store without attaching to it and without touching it.</summary>
public static class StoreInspector
{
    /// <summary>A snapshot of the store, read from its files.</summary>
    /// <param name="storePath">The store's directory.</param>
    /// <returns>The snapshot.</returns>
    /// <exception cref="QueueDiskException">There is no store, or no right to read it.</exception>
    /// <exception cref="QueueFormatException">Its meta page is damaged or of another version.</exception>
    public static MappedFileQueueInfo Inspect(string storePath)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(storePath);
        using var store = ReadOnlyStore.Open(Path.GetFullPath(storePath), verifiesChecksum: false);
        return store.GatherInfo();
    }
}

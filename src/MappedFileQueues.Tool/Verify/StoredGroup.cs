using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tool.Verify;

/// <summary>A group's files.</summary>
/// <param name="Name">The group.</param>
/// <param name="Table">What its table holds; null when that is damaged or cannot be read.</param>
/// <param name="Copy">What its saved copy holds; null when that is missing or damaged, or cannot be read.</param>
/// <param name="Denied">The error when this user may not read one of the two. What is in it may be whole.</param>
internal sealed record StoredGroup(string Name, SavedGroup? Table, SavedGroup? Copy, QueueDiskException? Denied)
{
    /// <summary>The table's file.</summary>
    public string File => StoreNames.Group(Name);

    /// <summary>Every group of a store.</summary>
    public static IEnumerable<StoredGroup> ReadAll(HeldDirectory directory, Guid storeId) =>
        GroupFile.Names(directory).Order(StringComparer.Ordinal).Select(name => Read(directory, storeId, name));

    /// <summary>What the next opener believes: after a power loss the copy alone; null when the group has to be reset.</summary>
    public SavedGroup? Believed(bool isOfThisBoot) => isOfThisBoot ? Table ?? Copy : Copy;

    /// <summary>The offsets that it holds, which all are the starts of frames, or the end of the log.</summary>
    public static IEnumerable<long> OffsetsOf(SavedGroup group) => group.Leases
        .SelectMany(lease => lease.IsSingle ? [lease.Start] : new[] { lease.Start, lease.End })
        .Append(group.NextEnd);

    /// <summary>The same group with each offset at another place.</summary>
    public static SavedGroup Move(SavedGroup group, Func<long, long> place) => new(
        group.Epoch, place(group.NextEnd),
        [
            .. group.Leases.Select(lease => lease with
            {
                Start = place(lease.Start),
                End = lease.IsSingle ? 0 : place(lease.End),
            }),
        ]);

    private static StoredGroup Read(HeldDirectory directory, Guid storeId, string name)
    {
        QueueDiskException? denied = null;
        SavedGroup? table = OrNull(() => ReadTable(directory, storeId, name), ref denied);
        SavedGroup? copy = OrNull(() => GroupFile.ReadSaved(directory, storeId, name), ref denied);
        return new StoredGroup(name, table, copy, denied);
    }

    private static SavedGroup? ReadTable(HeldDirectory directory, Guid storeId, string name)
    {
        string file = StoreNames.Group(name);
        using MappedRegion? region = GroupFile.MapForReading(directory, storeId, file);
        return region is null ? null : GroupScan.Save(new GroupTable(region), file, 0, new GroupClock(TimeProvider.System));
    }

    private static SavedGroup? OrNull(Func<SavedGroup?> read, ref QueueDiskException? denied)
    {
        try
        {
            return read();
        }
        catch (Exception error) when (error is QueueDiskException or QueueCorruptException)
        {
            if (error is QueueDiskException { Errno: DiskErrors.EACCES } refused)
                denied = refused;
            return null;
        }
    }
}

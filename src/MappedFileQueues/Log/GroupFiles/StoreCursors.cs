using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// Everything that holds messages back: the cursors of consumers, and the floors of groups. A group counts as a cursor at its
/// floor.
/// </summary>
internal static class StoreCursors
{
    private const string GroupPrefix = "group/";

    /// <summary>All of them, with those that cannot be read.</summary>
    public static IEnumerable<StoredCursor> ReadAll(HeldDirectory directory, Guid storeId) => CursorFile.ReadAll(directory)
        .Concat(GroupFile.Names(directory).Select(name => ReadGroup(directory, storeId, name)));

    /// <summary>The floor of a group; also when it cannot be read.</summary>
    public static StoredCursor ReadGroup(HeldDirectory directory, Guid storeId, string name)
    {
        string file = StoreNames.Group(name);
        try
        {
            using MappedRegion? region = GroupFile.MapForReading(directory, storeId, file);
            return new StoredCursor(file, region is null ? null : GroupScan.FindFloor(new GroupTable(region), file), null);
        }
        catch (Exception error) when (error is QueueDiskException or QueueCorruptException)
        {
            return new StoredCursor(file, null, error);
        }
    }

    /// <summary>The consumer of a file, or "group/" and the group.</summary>
    public static string NameOf(string file) => file.EndsWith(StoreNames.GroupSuffix, StringComparison.Ordinal)
        ? GroupPrefix + Path.GetFileNameWithoutExtension(file)
        : CursorFile.NameOf(file);
}

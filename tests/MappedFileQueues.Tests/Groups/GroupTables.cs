using MappedFileQueues.Format;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Groups;

/// <summary>The tables of groups, as the files have them.</summary>
internal static class GroupTables
{
    /// <summary>Looks at the table of the group "workers".</summary>
    /// <param name="storePath">The store, which others may have open.</param>
    /// <param name="look">What is looked for.</param>
    public static T Look<T>(string storePath, Func<GroupTable, T> look)
    {
        Guid storeId = StoreInspector.Inspect(storePath).StoreId;
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(storePath, create: false, mode: null)!;
        using MappedRegion region = GroupFile.MapForReading(directory, storeId, StoreNames.Group("workers"))!;
        return look(new GroupTable(region));
    }
}

using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>The files of removed segments that wait to be used again.</summary>
internal static class SpareFiles
{
    /// <summary>Removes them, except for some.</summary>
    /// <param name="kept">So many stay.</param>
    /// <param name="directory">The store.</param>
    /// <returns>How many there were.</returns>
    public static int RemoveBeyond(int kept, HeldDirectory directory)
    {
        int count = 0;
        directory.DeleteWhere(StoreNames.CommitLog, name => StoreNames.IsSpare(name) && ++count > kept);
        return count;
    }
}

using System.Diagnostics;

namespace MappedFileQueues.Bench.Packs;

/// <summary>The system's cache of files: pages, names and inodes.</summary>
internal static class SystemCache
{
    private const string Switch = "/proc/sys/vm/drop_caches";

    /// <summary>
    /// Writes all that is in a file system to the disk (dirty pages cannot be dropped), then drops all of the cache; false
    /// where the rights, or the system, do not allow it.
    /// </summary>
    /// <param name="path">Anything in the file system.</param>
    public static bool TryDrop(string path)
    {
        if (!File.Exists(Switch))
            return false;
        using (var sync = Process.Start("sync", ["--file-system", path]))
            sync.WaitForExit();
        try
        {
            File.WriteAllText(Switch, "3");
            return true;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return false;
        }
    }
}

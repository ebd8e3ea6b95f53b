namespace MappedFileQueues.Tool.Bench.Packs;

/// <summary>The system's cache of files: pages, names and inodes.</summary>
internal static class SystemCache
{
    private const string Switch = "/proc/sys/vm/drop_caches";

    /// <summary>
    /// Drops all of it that is on disk already (after <paramref name="sync"/> has put it there); false where the rights, or
    /// the system, do not allow it.
    /// </summary>
    public static bool TryDrop(Action sync)
    {
        if (!File.Exists(Switch))
            return false;
        sync();
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

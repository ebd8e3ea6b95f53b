namespace MappedFileQueues.Platform;

/// <summary>Paths as the system reads them.</summary>
internal static class SystemPath
{
    /// <summary>
    /// The full path. Some names are devices for Windows, in any folder and before Windows 11 with any ending: what is written to
    /// <c>nul.txt</c> is nowhere.
    /// </summary>
    /// <exception cref="QueueDiskException">The path is that of a device, or below a folder that is gone.</exception>
    public static string Full(string path)
    {
        string full;
        try
        {
            full = Path.GetFullPath(path);
        }
        catch (FileNotFoundException error)
        {
            throw DiskErrors.Make("Cannot find the folder in which this process works", path, DiskErrors.ENOENT,
                "No such file or directory", error);
        }

        return OperatingSystem.IsWindows() && full.StartsWith(@"\\.\", StringComparison.Ordinal)
            ? throw DiskErrors.Make("Cannot use this name", path, DiskErrors.ENXIO, "Windows takes it for a device")
            : full;
    }
}

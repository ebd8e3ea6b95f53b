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

    /// <summary>
    /// The error for a directory that cannot be made because a symbolic link has its name, or that of one above, and leads to
    /// nothing; null where none does. The system's own answers contradict each other: the name is taken, and nothing is there.
    /// </summary>
    public static QueueDiskException? DanglingLink(string full)
    {
        try
        {
            for (string? at = full; at is not null; at = Path.GetDirectoryName(at))
            {
                DirectoryInfo named = new(at);
                FileSystemInfo? target = named.LinkTarget is null ? null : named.ResolveLinkTarget(returnFinalTarget: true);
                if (target is not null && !Directory.Exists(target.FullName) && !File.Exists(target.FullName))
                {
                    return DiskErrors.Make($"Cannot make the directory: the symbolic link {at} leads to {target.FullName}, which "
                        + "does not exist", full, DiskErrors.ENOENT, "No such file or directory");
                }
            }
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            // Then something else is wrong, which the caller knows.
        }

        return null;
    }
}

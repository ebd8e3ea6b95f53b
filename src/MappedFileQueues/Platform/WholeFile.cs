namespace MappedFileQueues.Platform;

/// <summary>
/// A file that comes into being, or is replaced, as a whole: a crash leaves what stood under the name before, or all of the new
/// file, never a part. First <see cref="Write"/>, then <see cref="Install"/>; what a crash leaves under the temporary name is
/// removed by the next write, or by the opener that lists the folder.
/// </summary>
internal static class WholeFile
{
    /// <summary>Ends the name of every file that is still being made; a lone opener removes such files.</summary>
    public const string TemporarySuffix = ".tmp";

    /// <summary>Fills a new file under the temporary name and syncs it. When that fails, that name is free again.</summary>
    /// <param name="directory">Where.</param>
    /// <param name="name">The name that the file will get.</param>
    /// <param name="fill">Writes the contents; the file is empty, and is closed afterwards.</param>
    /// <param name="suffix">What the temporary name adds to the name.</param>
    public static void Write(
        HeldDirectory directory, string name, Action<PlatformFile> fill, string suffix = TemporarySuffix)
    {
        _ = directory.Delete(name + suffix);
        try
        {
            using PlatformFile file = directory.Open(name + suffix, FileOpening.ReadWriteOrCreate)!;
            fill(file);
            file.Sync();
        }
        catch
        {
            TryDelete(directory, name + suffix);
            throw;
        }
    }

    /// <summary>Gives the temporary file its name, in place of what stood there, and syncs the folder's entries.</summary>
    /// <param name="directory">Where.</param>
    /// <param name="name">The name.</param>
    /// <param name="renamed">Called between the two, for tests that kill there.</param>
    public static void Install(HeldDirectory directory, string name, Action? renamed = null)
    {
        directory.Rename(name + TemporarySuffix, name);
        renamed?.Invoke();
        int slash = name.LastIndexOf('/');
        directory.FlushEntries(slash < 0 ? "" : name[..slash]);
    }

    /// <summary>Removes a temporary file for a caller that has an error in hand already.</summary>
    public static void TryDelete(HeldDirectory directory, string name)
    {
        try
        {
            _ = directory.Delete(name);
        }
        catch (QueueDiskException)
        {
            // It is of no use to anybody, and the next write of it tries again.
        }
    }
}

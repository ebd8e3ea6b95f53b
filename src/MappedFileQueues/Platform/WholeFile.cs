namespace MappedFileQueues.Platform;

/// <summary>
/// Creates or replaces a file as a whole: a crash leaves the former file, or all of the new one, never a part. First
/// <see cref="Write"/>, then <see cref="Install"/>. What a crash leaves under the temporary name is removed by the next write, or
/// by the opener that lists the directory.
/// </summary>
internal static class WholeFile
{
    /// <summary>The end of the name of every unfinished file; a lone opener removes such files.</summary>
    public const string TemporarySuffix = ".tmp";

    /// <summary>Fills a new file under the temporary name and syncs it. On an error the temporary file is removed.</summary>
    /// <param name="directory">The directory of the file.</param>
    /// <param name="name">The final name of the file.</param>
    /// <param name="fill">Writes the contents; the file is empty, and is closed afterwards.</param>
    /// <param name="suffix">What the temporary name adds to the name.</param>
    public static void Write(
        HeldDirectory directory, string name, Action<PlatformFile> fill, string suffix = TemporarySuffix)
    {
        _ = directory.Delete(name + suffix);
        PlatformFile file = Create(directory, name + suffix);
        try
        {
            using (file)
            {
                fill(file);
                file.Sync();
            }
        }
        catch
        {
            TryDelete(directory, name + suffix);
            throw;
        }
    }

    /// <summary>Writes a file and gives it its name, which is on disk then too.</summary>
    public static void Replace(HeldDirectory directory, string name, Action<PlatformFile> fill)
    {
        Write(directory, name, fill);
        Install(directory, name);
    }

    /// <summary>
    /// Creates a file under a temporary name. A file that is there already is an error: opened instead, it would bring its old
    /// bytes along, and another maker may be writing into it.
    /// </summary>
    public static PlatformFile Create(HeldDirectory directory, string temporary) =>
        directory.Open(temporary, FileOpening.CreateNew)
            ?? throw DiskErrors.Make("Cannot make the file", Path.Combine(directory.Path, temporary), DiskErrors.EEXIST,
                "File exists");

    /// <summary>Gives the temporary file its final name, replacing the former file, and syncs the directory's entries.</summary>
    /// <param name="directory">The directory of the file.</param>
    /// <param name="name">The name.</param>
    /// <param name="renamed">Called between the two steps, for tests that kill there.</param>
    public static void Install(HeldDirectory directory, string name, Action? renamed = null)
    {
        directory.Rename(name + TemporarySuffix, name);
        renamed?.Invoke();
        int slash = name.LastIndexOf('/');
        directory.FlushEntries(slash < 0 ? "" : name[..slash]);
    }

    /// <summary>
    /// Refuses a queue or a pack whose meta page has a second name. Its files are those of another one, as after `cp -al`, and
    /// both would be destroyed as soon as one of them changes.
    /// </summary>
    /// <param name="directory">The queue or the pack.</param>
    /// <param name="meta">Its meta page.</param>
    /// <param name="formerNames">Names that it may have had before. Where the system cannot rename without replacing, a crash
    /// leaves both.</param>
    public static void ThrowIfLinked(HeldDirectory directory, string meta, params ReadOnlySpan<string> formerNames)
    {
        using PlatformFile? file = directory.Open(meta, FileOpening.Read);
        if (file is not { HasOtherNames: true })
            return;
        foreach (string former in formerNames)
        {
            if (directory.Identify(former) == file.Identity)
                return;
        }

        throw new QueueFormatException($"The store shares its files with another one (hard links, as `cp -al` makes them): "
            + $"path={directory.Path}, file={meta}. Make a real copy (`cp -a`) and open that, or remove the other one; "
            + "nothing was written.");
    }

    /// <summary>Removes a temporary file for a caller that already has an error to report.</summary>
    public static void TryDelete(HeldDirectory directory, string name)
    {
        try
        {
            _ = directory.Delete(name);
        }
        catch (QueueDiskException)
        {
            // The file is of no use any longer, and the next write of it tries again.
        }
    }
}

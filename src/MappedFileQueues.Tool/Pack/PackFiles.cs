namespace MappedFileQueues.Tool.Pack;

/// <summary>A file to be put into a pack; the key is its relative path, with forward slashes.</summary>
internal readonly record struct PackFile(string Key, string Path);

/// <summary>
/// The files below what the user named. Symbolic links are not followed: one that leads up would never end, and one that leads
/// out would include files that the user did not name.
/// </summary>
internal static class PackFiles
{
    /// <summary>Why links, pipes and devices are left out.</summary>
    public const string NotRegular = "Not a regular file";

    /// <summary>
    /// A directory yields its files, by their paths relative to it; a file yields itself, by its name. The pack's own directory
    /// is left out. What cannot be added is skipped, with its path and the reason.
    /// </summary>
    public static IEnumerable<PackFile> Of(string path, string prefix, string pack, Action<string, string> onSkipped)
    {
        if (File.Exists(path))
            return [new PackFile(prefix + System.IO.Path.GetFileName(path), path)];
        if (Directory.Exists(path))
            return StorePaths.AreSame(path, pack) ? [] : Below(path, prefix, pack, onSkipped);
        throw new ToolException(IsMisnamed(path)
            ? $"The name is no UTF-8, and cannot be opened: path={path}. Rename it."
            : $"There is no such file or directory: path={path}.");
    }

    /// <summary>
    /// True if a name holds the character for what is no UTF-8, and nothing has that name. The system has names of bytes, .NET
    /// has names of text, and no text gives such bytes back.
    /// </summary>
    public static bool IsMisnamed(string path) => path.Contains('\uFFFD') && !System.IO.Path.Exists(path);

    private static IEnumerable<PackFile> Below(string root, string prefix, string pack, Action<string, string> onSkipped)
    {
        Stack<(DirectoryInfo Folder, string Prefix)> folders = new([(new DirectoryInfo(root), prefix)]);
        while (folders.TryPop(out (DirectoryInfo Folder, string Prefix) next))
        {
            FileSystemInfo[] entries = [];
            try
            {
                entries = next.Folder.GetFileSystemInfos();
            }
            catch (Exception error) when (error is UnauthorizedAccessException or IOException)
            {
                onSkipped(next.Folder.FullName, "The folder cannot be listed");
            }

            foreach (FileSystemInfo entry in entries.OrderBy(entry => entry.Name, StringComparer.Ordinal))
            {
                if (IsMisnamed(entry.FullName))
                    onSkipped(entry.FullName, "The name is no UTF-8");
                else if (entry.LinkTarget is not null)
                    onSkipped(entry.FullName, NotRegular);
                else if (entry is DirectoryInfo same && StorePaths.AreSame(same.FullName, pack))
                    continue;
                else if (entry is DirectoryInfo folder)
                    folders.Push((folder, $"{next.Prefix}{folder.Name}/"));
                else
                    yield return new PackFile(next.Prefix + entry.Name, entry.FullName);
            }
        }
    }
}

namespace MappedFileQueues.Tool.Pack;

/// <summary>A file to be put into a pack.</summary>
/// <param name="Key">The relative path, with forward slashes.</param>
/// <param name="Path">The path of the file.</param>
internal readonly record struct PackFile(string Key, string Path);

/// <summary>
/// The files below what the user named. Symbolic links are not followed: one that leads up would never end, and one that leads
/// out would include files that the user did not name.
/// </summary>
internal static class PackFiles
{
    /// <summary>
    /// A directory yields its files, by their paths relative to it; a file yields itself, by its name. The pack's own directory
    /// is left out.
    /// </summary>
    public static IEnumerable<PackFile> Of(string path, string prefix, string pack, Action<string> onSkipped)
    {
        if (File.Exists(path))
            return [new PackFile(prefix + System.IO.Path.GetFileName(path), path)];
        return Directory.Exists(path)
            ? Below(path, prefix, pack, onSkipped)
            : throw new ToolException($"There is no such file or directory: path={path}.");
    }

    private static IEnumerable<PackFile> Below(string root, string prefix, string pack, Action<string> onSkipped)
    {
        Stack<(DirectoryInfo Folder, string Prefix)> folders = new([(new DirectoryInfo(root), prefix)]);
        while (folders.TryPop(out (DirectoryInfo Folder, string Prefix) next))
        {
            IEnumerable<FileSystemInfo> entries = next.Folder.EnumerateFileSystemInfos();
            foreach (FileSystemInfo entry in entries.OrderBy(entry => entry.Name, StringComparer.Ordinal))
            {
                if (entry.LinkTarget is not null)
                    onSkipped(entry.FullName);
                else if (entry.FullName == System.IO.Path.GetFullPath(pack))
                    continue;
                else if (entry is DirectoryInfo folder)
                    folders.Push((folder, $"{next.Prefix}{folder.Name}/"));
                else
                    yield return new PackFile(next.Prefix + entry.Name, entry.FullName);
            }
        }
    }
}

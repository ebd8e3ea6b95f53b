namespace MappedFileQueues.PackageTexts;

/// <summary>Paths below the root of the repository, with forward slashes.</summary>
internal static class RepositoryPaths
{
    /// <summary>The folder of a file; empty for the root, where the solution is.</summary>
    public static string FolderOf(string file)
    {
        string folder = Path.GetDirectoryName(Path.GetFullPath(file))!;
        string root = folder;
        while (!File.Exists(Path.Combine(root, "MappedFileQueues.slnx")))
            root = Path.GetDirectoryName(root) ?? throw new DirectoryNotFoundException($"No solution above {file}.");
        return root == folder ? "" : Path.GetRelativePath(root, folder).Replace('\\', '/');
    }

    /// <summary>What a link of a file in the folder leads to.</summary>
    public static string Resolve(string folder, string link)
    {
        Uri root = new("file:///");
        string page = folder.Length == 0 ? "" : folder + "/";
        return new Uri(new Uri(root, page), link).ToString()[root.ToString().Length..];
    }
}

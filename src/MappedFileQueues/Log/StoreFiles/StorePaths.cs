using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>Where the paths of stores lead to.</summary>
internal static class StorePaths
{
    private const int LinksMax = 40;

    private static readonly StringComparison s_comparison =
        OperatingSystem.IsWindows() || OperatingSystem.IsMacOS() ? StringComparison.OrdinalIgnoreCase : StringComparison.Ordinal;

    /// <summary>
    /// True if both paths lead to one store: through links and bind mounts too, and also when neither is there yet. Text alone
    /// would not tell, and whoever appends to the store that it reads comes to no end. A path that cannot be read counts as
    /// written; whoever opens it hears of the trouble.
    /// </summary>
    public static bool AreSame(string storePath, string otherPath)
    {
        FileIdentity identity = Identify(storePath);
        FileIdentity other = Identify(otherPath);
        return identity != default && other != default
            ? identity == other
            : string.Equals(Resolve(storePath), Resolve(otherPath), s_comparison);
    }

    /// <summary>
    /// True for a path in the store's directory, at any depth, and for the directory itself; through links, and also when it is
    /// not there yet. What only reads a store writes nothing into it, and what removes a store takes along what is in it.
    /// </summary>
    public static bool IsInside(string storePath, string path)
    {
        for (string? at = Resolve(path); at is not null; at = Path.GetDirectoryName(at))
        {
            if (AreSame(storePath, at))
                return true;
        }

        return false;
    }

    /// <summary>The directory's identity; the default value where there is none, or the system tells none.</summary>
    private static FileIdentity Identify(string path)
    {
        try
        {
            using HeldDirectory? directory =
                CurrentPlatform.Services.OpenDirectory(Path.GetFullPath(path), create: false, mode: null);
            return directory?.Identify(".") ?? default;
        }
        catch (QueueDiskException)
        {
            return default;
        }
    }

    /// <summary>The path without links, also of what is not there yet.</summary>
    private static string Resolve(string path)
    {
        int links = 0;
        return Follow(Path.TrimEndingDirectorySeparator(Path.GetFullPath(path)));

        string Follow(string full)
        {
            if (Path.GetDirectoryName(full) is not { } parent)
                return full;
            parent = Follow(parent);
            full = Path.Combine(parent, Path.GetFileName(full));
            if (links == LinksMax || TargetOf(full) is not { } target)
                return full;
            links++;
            return Follow(Path.TrimEndingDirectorySeparator(Path.GetFullPath(target, parent)));
        }
    }

    private static string? TargetOf(string path)
    {
        try
        {
            return new DirectoryInfo(path).LinkTarget;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }
}

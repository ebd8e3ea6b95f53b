using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Names;

/// <summary>Symbolic links.</summary>
internal static class FileLinks
{
    /// <summary>How many links Linux follows in one path.</summary>
    private const int CountMax = 40;

    /// <summary>
    /// The full path of the file that a path leads to, which need not be there; links in the folders above are left to the
    /// system.
    /// </summary>
    public static string Follow(string path)
    {
        string full = SystemPath.Full(path);
        try
        {
            FileInfo named = new(full);
            if (named.LinkTarget is null)
                return full;
            // Windows itself takes `..` by the text of the path.
            if (OperatingSystem.IsWindows())
                return named.ResolveLinkTarget(returnFinalTarget: true)?.FullName ?? full;
            int count = 0;
            return FollowAll(full, ref count);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw DiskErrors.Make("Cannot follow the symbolic link", full, DiskErrors.ELOOP, error.Message.TrimEnd('.'), error);
        }
    }

    /// <summary>Follows the path until what has its name is no link.</summary>
    private static string FollowAll(string path, ref int count)
    {
        while (new FileInfo(path).LinkTarget is { } target)
        {
            if (++count > CountMax)
                throw new IOException($"Too many levels of symbolic links in '{path}'.");
            path = Enter(Path.GetDirectoryName(path)!, target, ref count);
        }

        return path;
    }

    /// <summary>
    /// Where the target of a link in a folder leads. The folder above a linked one is not the one above the link: .NET takes `..`
    /// by the text of the path, the system does not.
    /// </summary>
    private static string Enter(string folder, string target, ref int count)
    {
        string at = Path.IsPathRooted(target) ? "/" : folder;
        foreach (string name in target.Split('/', StringSplitOptions.RemoveEmptyEntries))
        {
            at = name switch
            {
                "." => at,
                ".." => Path.GetDirectoryName(FindReal(at, ref count)) ?? "/",
                _ => Path.Join(at, name),
            };
        }

        return at;
    }

    /// <summary>The folder by a path without links.</summary>
    private static string FindReal(string folder, ref int count)
    {
        string real = "/";
        foreach (string name in folder.Split('/', StringSplitOptions.RemoveEmptyEntries))
        {
            string next = Path.Join(real, name);
            string end = FollowAll(next, ref count);
            real = end == next ? next : FindReal(end, ref count);
        }

        return real;
    }
}

namespace MappedFileQueues.Tool.Pack;

/// <summary>
/// Checks whether a key may become a file below a directory. A pack may come from anywhere, and a key can be any bytes:
/// `../../.profile`, or `link/file` where an earlier object, or another program, has left a link.
/// </summary>
internal static class SafeName
{
    private static readonly char[] s_invalidOnWindows = ['<', '>', ':', '"', '|', '?', '*', '\\'];

    private static readonly string[] s_devicesOnWindows = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

    /// <summary>The key's parts; null, and the reason, if it cannot be a relative path below the directory.</summary>
    public static string[]? TrySplit(string key, out string reason)
    {
        string[] parts = key.Split('/');
        reason = key.Length == 0 ? "it is empty"
            : key[0] == '/' ? "it is an absolute path"
            : key.Contains('\0', StringComparison.Ordinal) ? "it holds a NUL"
            : key.Contains('\uFFFD', StringComparison.Ordinal) ? "it is no text"
            : Array.Exists(parts, static part => part == "..") ? "it leads up"
            : Array.Exists(parts, static part => part is "" or ".") ? "a part of it is empty or a dot"
            : OperatingSystem.IsWindows() && Array.Exists(parts, IsInvalidOnWindows) ? "Windows has no such name"
            : "";
        return reason.Length == 0 ? parts : null;
    }

    /// <summary>
    /// Creates the directories that lead to the file, and returns its path; null, and the reason, if a part of the path is not a
    /// directory of ours but a link or a file.
    /// </summary>
    public static string? TryMakeWay(string root, string[] parts, out string reason)
    {
        string path = root;
        foreach (string part in parts[..^1])
        {
            path = Path.Combine(path, part);
            var folder = new DirectoryInfo(path);
            if (folder.LinkTarget is not null || File.Exists(path))
            {
                reason = $"{path} is a link or a file";
                return null;
            }

            folder.Create();
        }

        reason = "";
        return Path.Combine(path, parts[^1]);
    }

    private static bool IsInvalidOnWindows(string part) =>
        part.IndexOfAny(s_invalidOnWindows) >= 0 || part.Any(static letter => letter < ' ')
        || part[^1] is '.' or ' ' || IsDevice(part.Split('.')[0].TrimEnd(' '));

    /// <summary>True for `COM1` to `LPT9` too, whatever follows a dot.</summary>
    private static bool IsDevice(string name) =>
        s_devicesOnWindows.Contains(name, StringComparer.OrdinalIgnoreCase)
        || (name.Length == 4 && !char.IsAsciiLetter(name[3]) && (name[..3].ToUpperInvariant() is "COM" or "LPT"));
}

using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Names;

/// <summary>Symbolic links.</summary>
internal static class FileLinks
{
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
            return named.LinkTarget is null ? full : named.ResolveLinkTarget(returnFinalTarget: true)?.FullName ?? full;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw DiskErrors.Make("Cannot follow the symbolic link", full, DiskErrors.ELOOP, error.Message.TrimEnd('.'), error);
        }
    }
}

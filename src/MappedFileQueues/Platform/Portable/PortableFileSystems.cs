namespace MappedFileQueues.Platform.Portable;

/// <summary>Recognizes network and FUSE file systems by what the BCL knows of the drive.</summary>
internal static class PortableFileSystems
{
    private static readonly string[] s_unsafePrefixes =
    [
        "nfs", "cifs", "smb", "fuse", "9p", "v9fs", "ceph", "afs", "coda", "ncp", "gfs", "ocfs2", "lustre", "gpfs", "beegfs",
        "vboxsf", "vmhgfs",
    ];

    /// <summary>The name; null for any other file system and where it is unknown.</summary>
    public static string? UnsafeName(string path)
    {
        if (OperatingSystem.IsWindows() && path.StartsWith(@"\\", StringComparison.Ordinal))
            return "SMB";
        try
        {
            DriveInfo drive = new(path);
            string format = drive.DriveFormat;
            bool isUnsafe = drive.DriveType == DriveType.Network
                || Array.Exists(s_unsafePrefixes, prefix => format.StartsWith(prefix, StringComparison.OrdinalIgnoreCase));
            return isUnsafe ? format.ToUpperInvariant() : null;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or ArgumentException)
        {
            return null;
        }
    }
}

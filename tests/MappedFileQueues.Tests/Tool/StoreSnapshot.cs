using System.Security.Cryptography;

namespace MappedFileQueues.Tests.Tool;

/// <summary>Every file below a folder with the digest of its bytes, to see whether anything left a trace.</summary>
internal static class StoreSnapshot
{
    public static string[] Of(string folder) =>
    [
        .. Directory.EnumerateFileSystemEntries(folder, "*", SearchOption.AllDirectories)
            .Order(StringComparer.Ordinal)
            .Select(path => Directory.Exists(path) ? path : $"{path} {DigestOf(path)}"),
    ];

    private static string DigestOf(string path)
    {
        // A queue may have it open; Windows asks both of them whether they share it.
        using FileStream file = new(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
        return Convert.ToHexString(SHA256.HashData(file));
    }
}

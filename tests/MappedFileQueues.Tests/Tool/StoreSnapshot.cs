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

    private static string DigestOf(string path) => Convert.ToHexString(SHA256.HashData(File.ReadAllBytes(path)));
}

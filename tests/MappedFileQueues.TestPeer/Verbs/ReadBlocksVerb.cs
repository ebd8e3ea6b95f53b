using System.Security.Cryptography;
using MappedFileQueues.Files;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `read-blocks FILE`: reads the file by blocks that lie in a mapping and prints whether it was mapped, and its SHA-256; or
/// `ERROR` and the errno that reading met.
/// </summary>
internal static class ReadBlocksVerb
{
    public static int Run(string[] arguments)
    {
        using ReadAheadStream stream = new(arguments[0], new ReadAheadOptions { MapBlocks = true, BlockSize = 64 * 1024 });
        using IncrementalHash hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        bool isMapped = false;
        try
        {
            while (stream.TryReadBlock(out ReadOnlySpan<byte> block))
            {
                isMapped |= File.ReadAllText("/proc/self/maps").Contains(arguments[0], StringComparison.Ordinal);
                hash.AppendData(block);
            }

            Console.WriteLine($"{isMapped} {Convert.ToHexString(hash.GetHashAndReset())}");
        }
        catch (QueueDiskException error)
        {
            Console.WriteLine($"ERROR {error.Errno}");
        }

        return 0;
    }
}

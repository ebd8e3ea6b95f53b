using System.Buffers.Binary;
using MappedFileQueues.Bench.Measuring;

namespace MappedFileQueues.Bench.Files;

/// <summary>When a pass of the classic table asks the disk.</summary>
internal enum BlockSync
{
    None,
    AtEnd,
    Each,
}

/// <summary>
/// One pass: numbered blocks of 4 KiB from the start of a file to its end, with its closing; then a look at each.
/// </summary>
internal static class BlockRun
{
    public const int BlockLength = 4096;

    /// <summary>Nanoseconds for each block. The file is left as it is.</summary>
    public static double Write(string way, string path, FileRoom room, long length, BlockSync sync)
    {
        byte[] block = new byte[BlockLength];
        long count = length / BlockLength;
        using IBlockFile file = BlockFiles.Open(way, path, room, length, sync == BlockSync.Each);
        long start = Clock.Now;
        for (long i = 0; i < count; i++)
        {
            BinaryPrimitives.WriteInt64LittleEndian(block, i + 1);
            file.Write(block, i * BlockLength);
            if (sync == BlockSync.Each)
                file.Sync();
        }

        if (sync == BlockSync.AtEnd)
            file.Sync();
        file.Dispose();
        return Clock.NanosecondsEach(start, count);
    }

    /// <summary>The same, checked, and the file deleted.</summary>
    public static double WriteChecked(string way, string path, FileRoom room, long length, BlockSync sync)
    {
        Ballast.Take(length);
        double each = Write(way, path, room, length, sync);
        Check(way, path, length);
        Delete(path);
        return each;
    }

    /// <summary>Looks at the number in every block and at the length.</summary>
    public static void Check(string way, string path, long length)
    {
        using FileStream file = new(path, FileMode.Open, FileAccess.Read, FileShare.Read, bufferSize: 0);
        byte[] chunk = new byte[256 * BlockLength];
        long block = 0;
        for (int count; (count = file.ReadAtLeast(chunk, chunk.Length, throwOnEndOfStream: false)) > 0;)
        {
            for (int i = 0; i < count; i += BlockLength)
            {
                if (BinaryPrimitives.ReadInt64LittleEndian(chunk.AsSpan(i)) != ++block)
                    throw new ToolException($"A block was not written as it should be: way={way}, block={block}.");
            }
        }

        if (block != length / BlockLength)
            throw new ToolException($"The file has another length: way={way}, blocks={block}, expected={length / BlockLength}.");
    }

    public static void Delete(string path)
    {
        File.Delete(path);
        File.Delete(path + ".lock");
    }
}

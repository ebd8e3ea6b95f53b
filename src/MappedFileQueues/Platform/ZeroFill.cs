namespace MappedFileQueues.Platform;

/// <summary>Gives a file blocks by writing zeros, where there is no call that allocates.</summary>
internal static class ZeroFill
{
    private const int BlockLength = 4096;
    private const int ChunkLength = 64 * 1024;

    /// <summary>
    /// The system allots large pieces of memory to writes of this length, and later writes over them cost half as much as over
    /// pieces of 64 KiB (docs/LOG.md).
    /// </summary>
    private const int WriteLength = 256 * 1024;

    private static readonly byte[] s_zeros = new byte[WriteLength];

    /// <summary>Throws for a range that is not inside the file.</summary>
    public static void CheckRange(long offset, long length, long fileLength)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(offset, fileLength);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(length, fileLength - offset);
    }

    /// <summary>The error for a truncated file, which must not be mapped: an access beyond its end kills the process.</summary>
    public static QueueCorruptException TooShort(string path, long fileLength, long wanted) =>
        new(
            $"The file is shorter than its contents need: file={path}, length={fileLength}, needed={wanted}."
                + " What is before it can be read; restore the file.",
            path,
            fileLength);

    /// <summary>Writes zeros to [start, end).</summary>
    public static void Write(PlatformFile file, long start, long end)
    {
        while (start < end)
        {
            int count = (int)Math.Min(WriteLength, end - start);
            file.WriteAt(s_zeros.AsSpan(0, count), start);
            start += count;
        }
    }

    /// <summary>
    /// Writes zeros to those blocks of [start, end) that read as zeros. If another thread or process stored into such a block
    /// between the read and the write, the store would be lost: the caller promises that nothing uses them yet.
    /// </summary>
    public static void WriteWhereZero(PlatformFile file, long start, long end)
    {
        byte[] chunk = new byte[ChunkLength];
        while (start < end)
        {
            // Chunks end on block boundaries, so that a block is judged as a whole wherever the range allows it.
            long chunkEnd = Math.Min(end, (start / ChunkLength * ChunkLength) + ChunkLength);
            int count = file.ReadAt(chunk.AsSpan(0, (int)(chunkEnd - start)), start);
            chunk.AsSpan(count).Clear();
            long runStart = start;
            for (long block = start; block < chunkEnd;)
            {
                long blockEnd = Math.Min(chunkEnd, (block / BlockLength * BlockLength) + BlockLength);
                bool used = chunk.AsSpan((int)(block - start), (int)(blockEnd - block)).ContainsAnyExcept((byte)0);
                if (used)
                {
                    Write(file, runStart, block);
                    runStart = blockEnd;
                }

                block = blockEnd;
            }

            Write(file, runStart, chunkEnd);
            start = chunkEnd;
        }
    }
}

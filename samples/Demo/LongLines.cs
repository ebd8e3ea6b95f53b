using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Demo;

/// <summary>
/// Tells whether any line is longer than a limit, without reading the files completely. From each newline it goes one limit
/// further and looks back, and reads only until it meets a newline there.
/// </summary>
internal static class LongLines
{
    private const int ChunkLength = 64 * 1024;

    /// <summary>The first file with a line longer than <paramref name="limit"/> bytes; null if there is none.</summary>
    public static InputFile? FirstFileAbove(IEnumerable<InputFile> files, long limit)
    {
        foreach (InputFile file in files)
        {
            if (file.Length > limit && HasLineAbove(file, limit))
                return file;
        }

        return null;
    }

    private static bool HasLineAbove(InputFile file, long limit)
    {
        using SafeFileHandle handle = File.OpenHandle(file.Path);
        byte[] chunk = new byte[ChunkLength];
        long lineStart = 0;
        while (lineStart + limit < file.Length)
        {
            // The \n of a line of exactly the limit is at lineStart + limit.
            long end = lineStart + limit + 1;
            long newline = -1;
            while (newline < 0 && end > lineStart)
            {
                long start = Math.Max(lineStart, end - ChunkLength);
                int count = RandomAccess.Read(handle, chunk.AsSpan(0, (int)(end - start)), start);
                int index = chunk.AsSpan(0, count).LastIndexOf((byte)'\n');
                newline = index < 0 ? -1 : start + index;
                end = start;
            }

            if (newline < 0)
                return true;
            lineStart = newline + 1;
        }

        return false;
    }
}

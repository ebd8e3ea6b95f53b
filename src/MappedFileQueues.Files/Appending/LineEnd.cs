using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Appending;

/// <summary>The end of the last line of a file that is continued.</summary>
internal static class LineEnd
{
    /// <summary>
    /// Where lines are written, the part of a line that a killed process, a full disk or a truncation left stays a line of its
    /// own. Returns the file's length then.
    /// </summary>
    public static long Append(PlatformFile file, AppendFileOptions options, long length)
    {
        if (options.Content != FileContent.Lines || length == 0)
            return length;
        byte[] last = new byte[1];
        _ = file.ReadAt(last, length - 1);

        // A full file takes nothing any more: the next line begins the next file.
        if (last[0] == (byte)'\n' || (options.RollsByLength && length >= options.RollLength))
            return length;
        file.WriteAt("\n"u8, length);
        return length + 1;
    }
}

namespace MappedFileQueues.Files;

/// <summary>
/// A file became shorter while it was being read: it ends before a position that had been inside it. What was returned before is
/// what the file held; what was after the new end is gone.
/// </summary>
public sealed class FileTruncatedException : MappedFileQueueException
{
    internal FileTruncatedException(string path, long position, long lengthBefore, long lengthNow)
        : base($"The file became shorter while it was read: path={path}, position={position}, lengthBefore={lengthBefore}, "
            + $"lengthNow={lengthNow}. Seek to a position inside of it to read on, or open it again.")
    {
        Path = path;
        Position = position;
        LengthBefore = lengthBefore;
        LengthNow = lengthNow;
    }

    /// <summary>The file.</summary>
    public string Path { get; }

    /// <summary>The position in bytes up to which the file was read.</summary>
    public long Position { get; }

    /// <summary>The largest length in bytes that the file was seen to have.</summary>
    public long LengthBefore { get; }

    /// <summary>The length in bytes that it had then.</summary>
    public long LengthNow { get; }
}

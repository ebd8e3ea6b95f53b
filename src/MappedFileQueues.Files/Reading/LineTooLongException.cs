namespace MappedFileQueues.Files;

/// <summary>A line is longer than <see cref="MappedFileLinesOptions.LineLengthMax"/>.</summary>
public sealed class LineTooLongException : MappedFileQueueException
{
    internal LineTooLongException(string path, long position, int lineLengthMax)
        : base($"A line is longer than allowed: path={path}, position={position}, lineLengthMax={lineLengthMax}. "
            + "Raise MappedFileLinesOptions.LineLengthMax, or check that the file is text.")
    {
        Path = path;
        Position = position;
        LineLengthMax = lineLengthMax;
    }

    /// <summary>The file.</summary>
    public string Path { get; }

    /// <summary>The position in bytes where the line begins.</summary>
    public long Position { get; }

    /// <summary>The limit in bytes.</summary>
    public int LineLengthMax { get; }
}

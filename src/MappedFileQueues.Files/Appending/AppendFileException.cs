namespace MappedFileQueues.Files;

/// <summary>
/// An <see cref="AppendFileStream"/> could not write, flush or roll. Every later call throws the same error, since nothing can be
/// appended after missing bytes. The message says what was written and what was not.
/// </summary>
public sealed class AppendFileException : MappedFileQueueException
{
    internal AppendFileException(string message, AppendFailure failure)
        : base(message, failure.Cause)
    {
        Path = failure.Path;
        Errno = (failure.Cause as QueueDiskException)?.Errno ?? 0;
        WrittenLength = failure.WrittenLength;
        UnwrittenLength = failure.AcceptedLength - failure.WrittenLength;
        FlushedLength = failure.FlushedLength;
    }

    /// <summary>The file.</summary>
    public string Path { get; }

    /// <summary>The error number of the operating system (28, ENOSPC: the disk is full); 0 when there is none.</summary>
    public int Errno { get; }

    /// <summary>How many bytes, counted from the opening of the stream, the file holds without a gap.</summary>
    public long WrittenLength { get; }

    /// <summary>How many bytes after these were written by calls and are not in the file.</summary>
    public long UnwrittenLength { get; }

    /// <summary>How many bytes, counted from the opening of the stream, survive a power loss too.</summary>
    public long FlushedLength { get; }
}

/// <summary>The first error of a stream, and where it stood then.</summary>
internal sealed record AppendFailure(
    Exception Cause, string Path, long AcceptedLength, long WrittenLength, long FlushedLength)
{
    /// <summary>What a call throws: an exception of its own, with its own stack.</summary>
    public AppendFileException ToException() => new(
        $"Cannot append to the file: path={Path}, written={WrittenLength}, unwritten={AcceptedLength - WrittenLength},"
            + $" flushed={FlushedLength} bytes since it was opened. {Cause.Message}",
        this);
}

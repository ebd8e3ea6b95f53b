namespace MappedFileQueues.Files;

/// <summary>
/// An <see cref="AppendFileStream"/> could not write, flush or roll. The first such error is what every later call throws, since
/// nothing can be appended behind bytes that are missing. The message says what was and what was not written.
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

    /// <summary>The error number of the operating system (28, ENOSPC: the disk is full); 0 when it gave none.</summary>
    public int Errno { get; }

    /// <summary>The bytes, counted from the opening of the stream, that the file holds: the first ones without a gap.</summary>
    public long WrittenLength { get; }

    /// <summary>The bytes behind them that calls have handed over and that the file does not hold.</summary>
    public long UnwrittenLength { get; }

    /// <summary>The bytes, counted from the opening of the stream, that survive a power cut too.</summary>
    public long FlushedLength { get; }
}

/// <summary>The first error of a stream, and where it stood then.</summary>
internal sealed record AppendFailure(
    Exception Cause, string Path, long AcceptedLength, long WrittenLength, long FlushedLength)
{
    /// <summary>What a call throws: each has its own exception, so that each has its own stack.</summary>
    public AppendFileException ToException() => new(
        $"Cannot append to the file: path={Path}, written={WrittenLength}, unwritten={AcceptedLength - WrittenLength},"
            + $" flushed={FlushedLength} bytes since it was opened. {Cause.Message}",
        this);
}

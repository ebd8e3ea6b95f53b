namespace MappedFileQueues;

/// <summary>
/// The base of every error that a store can raise. The message says what failed, then the values as key=value, then the
/// remedy.
/// </summary>
public class MappedFileQueueException : IOException
{
    /// <summary>Makes the exception.</summary>
    /// <param name="message">What failed, the values, the remedy.</param>
    /// <param name="inner">The cause, when there is one.</param>
    public MappedFileQueueException(string message, Exception? inner = null)
        : base(message, inner)
    {
    }
}

/// <summary>The bytes of the store are not what an intact store can hold.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="file">The damaged file.</param>
/// <param name="offset">The offset in the log, or the position in <paramref name="file"/> where it is not a segment.</param>
public sealed class QueueCorruptException(string message, string file, long offset) : MappedFileQueueException(message)
{
    /// <summary>The damaged file.</summary>
    public string File { get; } = file;

    /// <summary>The offset in the log (in a segment), or the byte position in <see cref="File"/> (in any other file).</summary>
    public long Offset { get; } = offset;
}

/// <summary>
/// The folder is not a store that this version and this caller can use: unknown version or feature, another message type,
/// a 1.x folder, foreign files.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class QueueFormatException(string message) : MappedFileQueueException(message);

/// <summary>There is no queue, no pack or no file at the path, and the call was not to make one.</summary>
public sealed class QueueNotFoundException : MappedFileQueueException
{
    /// <summary>Makes the exception.</summary>
    /// <param name="message">What failed, the values, the remedy.</param>
    /// <param name="path">The directory or file that is not there.</param>
    /// <param name="inner">The cause, when there is one.</param>
    public QueueNotFoundException(string message, string path, Exception? inner = null)
        : base(message, inner) => Path = path;

    /// <summary>The directory or file that is not there.</summary>
    public string Path { get; }
}

/// <summary>Another process or queue holds a lock that this call needs; the message names the holder where it is known.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="holderProcessIds">Who holds the lock; null when nobody knows.</param>
public sealed class QueueInUseException(string message, IReadOnlyList<int>? holderProcessIds = null)
    : MappedFileQueueException(message)
{
    /// <summary>
    /// The processes that held the lock when the call gave up, this one too when another object of it does; empty where the
    /// system does not tell (it is Linux that does), or when what is in the way is no lock.
    /// </summary>
    public IReadOnlyList<int> HolderProcessIds { get; } = holderProcessIds ?? [];
}

/// <summary>The queue is full by its own limits.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class QueueFullException(string message) : MappedFileQueueException(message);

/// <summary>The operating system refused a file operation; a full disk too.</summary>
public sealed class QueueDiskException : MappedFileQueueException
{
    /// <summary>Makes the exception.</summary>
    /// <param name="message">What failed, the values, the remedy.</param>
    /// <param name="errno">The error number of the operating system; 0 when it gave none.</param>
    /// <param name="path">The file or directory.</param>
    /// <param name="inner">The cause, when there is one.</param>
    public QueueDiskException(string message, int errno, string path, Exception? inner = null)
        : base(message, inner)
    {
        Errno = errno;
        Path = path;
    }

    /// <summary>The error number of the operating system (errno on Unix); 0 when it gave none.</summary>
    public int Errno { get; }

    /// <summary>The file or directory.</summary>
    public string Path { get; }

    /// <summary>
    /// A sync failed: the kernel says so once and may have dropped the pages. Anything else (no descriptor left, no rights)
    /// failed before the disk was asked, and may be tried again.
    /// </summary>
    internal bool MayHaveLostData { get; init; }
}

/// <summary>
/// An earlier flush failed: nothing is confirmed any more until every process has closed the store and one opened it again.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="inner">The flush's own error, where this process led it.</param>
public sealed class QueuePoisonedException(string message, Exception? inner = null) : MappedFileQueueException(message, inner);

/// <summary>The store under an open queue was deleted or replaced.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class QueueDeletedException(string message) : MappedFileQueueException(message);

/// <summary>The offset is not a frame's start, not the tail, or lies outside of what the store still holds.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class OffsetOutOfRangeException(string message) : MappedFileQueueException(message);

/// <summary>
/// This producer's claim was taken away (its owner was found dead, or it was fenced by command): the message was not
/// published and never will be. Open a new producer and produce it again.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class ProducerFencedException(string message) : MappedFileQueueException(message);

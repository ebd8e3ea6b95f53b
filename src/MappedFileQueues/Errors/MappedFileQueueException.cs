namespace MappedFileQueues;

/// <summary>
/// The base of all errors that a store or a pack can raise. The message says what failed, then the values as key=value, then the
/// remedy.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="inner">The cause, if there is one.</param>
public class MappedFileQueueException(string message, Exception? inner = null) : IOException(message, inner);

/// <summary>The store holds bytes that an intact store cannot hold.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="file">The damaged file.</param>
/// <param name="offset">The offset in the log, or the position in <paramref name="file"/> if that is not a segment.</param>
public sealed class QueueCorruptException(string message, string file, long offset) : MappedFileQueueException(message)
{
    /// <summary>The damaged file.</summary>
    public string File { get; } = file;

    /// <summary>The offset in the log if the file is a segment; otherwise the byte position in <see cref="File"/>.</summary>
    public long Offset { get; } = offset;
}

/// <summary>
/// The directory is not a store that this version and this caller can use: an unknown version or feature, another message type, a
/// 1.x folder, or foreign files.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class QueueFormatException(string message) : MappedFileQueueException(message);

/// <summary>There is no queue or file at the path, and the call may not create one.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="path">The missing directory or file.</param>
/// <param name="inner">The cause, if there is one.</param>
public sealed class QueueNotFoundException(string message, string path, Exception? inner = null)
    : MappedFileQueueException(message, inner)
{
    /// <summary>The missing directory or file.</summary>
    public string Path { get; } = path;
}

/// <summary>Another process or queue holds a lock that this call needs. The message names the holder if it is known.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="holderProcessIds">The processes that hold the lock; null if unknown.</param>
public sealed class QueueInUseException(string message, IReadOnlyList<int>? holderProcessIds = null)
    : MappedFileQueueException(message)
{
    /// <summary>
    /// The processes that held the lock when the call gave up; this process is among them if another of its objects held it.
    /// Empty when the obstacle is not a lock, or when the system does not tell the holders (only Linux does).
    /// </summary>
    public IReadOnlyList<int> HolderProcessIds { get; } = holderProcessIds ?? [];
}

/// <summary>The queue has reached a limit of its own.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class QueueFullException(string message) : MappedFileQueueException(message);

/// <summary>The operating system refused a file operation, for example because the disk is full.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="errno">The operating system's error number; 0 if it gave none.</param>
/// <param name="path">The file or directory.</param>
/// <param name="inner">The cause, if there is one.</param>
public sealed class QueueDiskException(string message, int errno, string path, Exception? inner = null)
    : MappedFileQueueException(message, inner)
{
    /// <summary>The operating system's error number (errno on Unix); 0 if it gave none.</summary>
    public int Errno { get; } = errno;

    /// <summary>The file or directory.</summary>
    public string Path { get; } = path;

    /// <summary>
    /// Whether a sync failed: the kernel reports that once and may have dropped the pages. Any other error (no descriptor left,
    /// no permission) came before the disk was asked, so the operation may be tried again.
    /// </summary>
    internal bool MayHaveLostData { get; init; }
}

/// <summary>
/// An earlier flush failed. Nothing more is durable until every process has closed the store and one has opened it again.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="inner">The flush's own error, if this process led the flush.</param>
public sealed class QueuePoisonedException(string message, Exception? inner = null) : MappedFileQueueException(message, inner);

/// <summary>The store was deleted or replaced, or its lock files were removed, while a queue had it open.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class QueueDeletedException(string message) : MappedFileQueueException(message);

/// <summary>The offset is neither a frame's start nor the tail, or the store no longer holds it.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class OffsetOutOfRangeException(string message) : MappedFileQueueException(message);

/// <summary>
/// This producer lost its claim: its owner was found dead, or a command fenced it. The message was not published and never will
/// be. Open a new producer and produce it again.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class ProducerFencedException(string message) : MappedFileQueueException(message);

/// <summary>
/// Messages that this member of a group had in hand are not its own any longer: an operator has taken them away, because the
/// member seemed to hang. Other members get them. The member's next Consume succeeds.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class GroupMemberFencedException(string message) : MappedFileQueueException(message);

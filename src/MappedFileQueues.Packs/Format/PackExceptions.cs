namespace MappedFileQueues.Packs;

/// <summary>The pack holds bytes that an intact pack cannot hold.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="file">The damaged file.</param>
/// <param name="offset">The position in <paramref name="file"/>.</param>
public sealed class PackCorruptException(string message, string file, long offset) : MappedFileQueueException(message)
{
    /// <summary>The damaged file.</summary>
    public string File { get; } = file;

    /// <summary>The byte position in <see cref="File"/>.</summary>
    public long Offset { get; } = offset;
}

/// <summary>
/// The directory is not a pack that this version can use: an unknown version, a damaged meta page, foreign files, or a file
/// system without reliable locks.
/// </summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="inner">The cause, if there is one.</param>
public sealed class PackFormatException(string message, Exception? inner = null) : MappedFileQueueException(message, inner);

/// <summary>There is no pack at the path, and the call may not create one.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="path">The missing directory or file.</param>
public sealed class PackNotFoundException(string message, string path) : MappedFileQueueException(message)
{
    /// <summary>The missing directory or file.</summary>
    public string Path { get; } = path;
}

/// <summary>Another writer has the pack open. The message names the holder of the lock if it is known.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="holderProcessIds">The processes that hold the lock; null if unknown.</param>
public sealed class PackInUseException(string message, IReadOnlyList<int>? holderProcessIds = null)
    : MappedFileQueueException(message)
{
    /// <summary>
    /// The processes that held the lock when the call gave up; this process is among them if another of its objects held it.
    /// Empty when the obstacle is not a lock, or when the system does not tell the holders (only Linux does).
    /// </summary>
    public IReadOnlyList<int> HolderProcessIds { get; } = holderProcessIds ?? [];
}

/// <summary>The pack has reached a limit of its own.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
public sealed class PackFullException(string message) : MappedFileQueueException(message);

/// <summary>An earlier sync failed. The pack accepts no more writes until it is closed and opened again.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="inner">The error of the sync, if there is one.</param>
public sealed class PackPoisonedException(string message, Exception? inner = null) : MappedFileQueueException(message, inner);

/// <summary>The pack was deleted or replaced while it was open.</summary>
/// <param name="message">What failed, the values, the remedy.</param>
/// <param name="inner">The cause, if there is one.</param>
public sealed class PackDeletedException(string message, Exception? inner = null) : MappedFileQueueException(message, inner);

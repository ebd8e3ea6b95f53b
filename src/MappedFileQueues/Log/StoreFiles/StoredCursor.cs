using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// A consumer's cursor as its file shows it now. One bad cursor must not keep retention, back-pressure or information from all
/// the others, so an error is a part of it.
/// </summary>
/// <param name="File">The file.</param>
/// <param name="Offset">The stored offset; null when there is none, and when it is damaged or cannot be read.</param>
/// <param name="Error">Why it cannot be known.</param>
internal readonly record struct StoredCursor(string File, long? Offset, Exception? Error)
{
    /// <summary>
    /// Some offset may be stored, and nobody here can tell which: damage, no right to read, no descriptor, a disk that fails.
    /// Whoever removes messages keeps everything that the consumer may need. In something that is no regular file (a directory, a
    /// named pipe) no consumer can store an offset.
    /// </summary>
    public bool IsUnknown => IsDamaged || Error is QueueDiskException { Errno: not (DiskErrors.EISDIR or DiskErrors.EINVAL) };

    /// <summary>The file can be read, and holds no offset that a consumer has stored.</summary>
    public bool IsDamaged => Error is QueueCorruptException;

    /// <summary>What is wrong with it, for people; null when nothing is.</summary>
    public string? Problem => Error is null
        ? null
        : IsUnknown
            ? $"A consumer's cursor {(IsDamaged ? "is damaged" : "cannot be read")}, so retention keeps all that the consumer "
                + $"may need. {Error.Message}"
            : $"This has the name of a consumer's cursor and can be none, so retention ignores it. {Error.Message}";
}

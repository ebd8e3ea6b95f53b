using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// Tells whether the store under an open queue is still the one that was opened: the inode of `queue.meta` against the one that
/// it had, and the directory's own place. The file stays open: a file system gives the inode number of a deleted file to the
/// next one that is made, so a store that is emptied and made anew in the same folder would pass for the old one. Portable knows
/// no inodes and keeps nothing open.
/// </summary>
internal sealed class MetaWatch : IDisposable
{
    private readonly HeldDirectory _directory;
    private readonly FileIdentity? _identity;
    private readonly PlatformFile? _file;
    private RecentLook _look;

    public MetaWatch(HeldDirectory directory)
    {
        _directory = directory;
        _file = directory.Open(StoreNames.Meta, FileOpening.Read);
        _identity = _file?.Identity;
        if (_identity != default(FileIdentity))
            return;
        _file?.Dispose();
        _file = null;
    }

    private bool IsUnchanged =>
        _identity is not null && _directory.Identify(StoreNames.Meta) == _identity && _directory.IsStillInPlace;

    /// <summary>Throws when the store's folder was deleted or replaced under this queue.</summary>
    public void ThrowIfReplaced()
    {
        if (!IsUnchanged)
        {
            throw new QueueDeletedException($"The store was deleted or replaced while it was open: path={_directory.Path}. "
                + "Dispose this queue and open the store again.");
        }
    }

    /// <summary>
    /// The same by a look that may be some milliseconds old, for the leader of a flush alone: three system calls, 4.4 us. What is
    /// confirmed in that time goes where everything goes that was confirmed just before the store was deleted.
    /// </summary>
    public void ThrowIfSeenReplaced()
    {
        if (_look.IsFresh(out long now))
            return;
        ThrowIfReplaced();
        _look.Note(now);
    }

    public void Dispose() => _file?.Dispose();
}

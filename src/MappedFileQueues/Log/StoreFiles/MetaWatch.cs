using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// Checks whether the store under an open queue is still the one that was opened: compares the inode of `queue.meta` with the
/// first one, and checks the directory's own place. The file stays open: a file system reuses the inode number of a deleted
/// file, so a store that was emptied and created anew in the same folder would pass for the old one. Portable has no inodes and
/// keeps nothing open.
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
    /// As <see cref="ThrowIfReplaced"/>, by a check that may be some milliseconds old. Only the leader of a flush uses it: the
    /// check takes three system calls, 4.4 us. Anything confirmed in that time shares the fate of what was durable just before
    /// the deletion.
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

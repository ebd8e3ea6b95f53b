using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log;

/// <summary>
/// Tells whether the store under an open queue is still the one that was opened: the inode of `queue.meta` against the one that
/// it had, and the directory's own place. The file stays open: a file system gives the inode number of a deleted file to the
/// next one that is made, so a store that is emptied and made anew in the same folder would pass for the old one. Portable knows
/// no inodes and keeps nothing open.
/// </summary>
internal sealed class MetaWatch : IDisposable
{
    private readonly StoreDirectory _directory;
    private readonly FileIdentity? _identity;
    private readonly PlatformFile? _file;

    public MetaWatch(StoreDirectory directory)
    {
        _directory = directory;
        _file = directory.Open(StoreNames.Meta, FileOpening.Read);
        _identity = _file?.Identity;
        if (_identity != default(FileIdentity))
            return;
        _file?.Dispose();
        _file = null;
    }

    public bool IsUnchanged =>
        _identity is not null && _directory.Identify(StoreNames.Meta) == _identity && _directory.IsStillInPlace;

    public void Dispose() => _file?.Dispose();
}

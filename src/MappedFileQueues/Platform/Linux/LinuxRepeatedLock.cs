using MappedFileQueues.Platform.Linux.Calls;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Platform.Linux;

/// <summary>
/// flock(2) on one open file. Taking it is a system call, sometimes with a check of the name, and allocates nothing.
/// <para>The name may have come to mean another file; a lock on the old one protects nothing. That may happen right after the
/// check as well, and the check costs as much as the lock. So it is repeated only when the last one is some milliseconds
/// old.</para>
/// </summary>
internal sealed class LinuxRepeatedLock(LinuxDirectory directory, string name) : RepeatedLock(directory, name)
{
    private readonly LinuxDirectory _directory = directory;
    private readonly string _name = name;
    private readonly string _path = directory.FullName(name);
    private LinuxHandle? _handle;
    private FileIdentity _identity;
    private RecentLook _look;

    /// <inheritdoc/>
    public override bool TryTake()
    {
        const int ReplacedTriesMax = 1000;
        for (int tries = 0; tries < ReplacedTriesMax; tries++)
        {
            LinuxHandle handle = _handle ??= Open();
            if (!LinuxLock.TryFlock(handle, LockKind.Exclusive, _path))
                return false;
            if (_look.IsFresh(out long now))
                return true;
            if (_directory.Identify(_name) == _identity)
            {
                _look.Note(now);
                return true;
            }

            Close();
        }

        throw LinuxErrors.Make("Cannot lock the file, which is replaced each time", _path, DiskErrors.EAGAIN);
    }

    /// <inheritdoc/>
    public override void Release()
    {
        // An explicit unlock: a child that is just being started holds a copy of the descriptor until its exec.
        if (_handle is not null)
            _ = LinuxNative.flock(_handle, LinuxNative.LOCK_UN);
    }

    /// <inheritdoc/>
    public override void Dispose() => Close();

    private LinuxHandle Open()
    {
        LinuxHandle handle = _directory.OpenForLock(_name);
        _identity = LinuxDirectory.Stat(handle, _path).Identity;
        _look = default;
        return handle;
    }

    private void Close()
    {
        Release();
        _handle?.Dispose();
        _handle = null;
    }
}

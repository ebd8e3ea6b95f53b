using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>
/// flock(2) on a file that has its own open, so that two opens in one process exclude each other as two processes do.
/// </summary>
internal sealed class LinuxLock : PlatformLock
{
    /// <summary>How often a lock file may be replaced during the attempt before it fails.</summary>
    private const int ReplacedTriesMax = 1000;

    private static readonly RootedObjects s_held = new();

    private readonly LinuxHandle? _handle;
    private readonly LinuxDirectory _directory;
    private readonly string _name;

    private LinuxLock(LinuxHandle? handle, LinuxDirectory directory, string name)
    {
        _handle = handle;
        _directory = directory;
        _name = name;
        if (handle is not null)
            s_held.Add(this);
    }

    /// <summary>
    /// Takes the lock; null when another open holds it. <paramref name="open"/> may give null for a missing file, whose lock
    /// nothing holds.
    /// </summary>
    public static LinuxLock? TryTake(LinuxDirectory directory, string name, LockKind kind, Func<LinuxHandle?> open)
    {
        string path = directory.FullName(name);
        for (int tries = 0; tries < ReplacedTriesMax; tries++)
        {
            LinuxHandle? handle = open();
            if (handle is null)
                return new LinuxLock(null, directory, name);
            bool kept = false;
            try
            {
                if (!TryFlock(handle, kind, path))
                    return null;

                // Between open and flock the name may have come to mean another file; a lock on the old one protects nothing.
                if (LinuxDirectory.Stat(handle, path).Identity == directory.Identify(name))
                {
                    kept = true;
                    return new LinuxLock(handle, directory, name);
                }
            }
            finally
            {
                if (!kept)
                    handle.Dispose();
            }
        }

        throw LinuxErrors.Make("Cannot lock the file, which is replaced each time", path, DiskErrors.EAGAIN);
    }

    /// <summary>Nothing is locked, because there is no file.</summary>
    public bool IsOfMissingFile => _handle is null;

    private string FullName => _directory.FullName(_name);

    /// <inheritdoc/>
    public override bool IsInPlace =>
        _handle is not null && LinuxDirectory.Stat(_handle, FullName).Identity == _directory.Identify(_name);

    /// <inheritdoc/>
    public override DateTimeOffset? NotedTime =>
        _handle is null ? null : LinuxDirectory.Stat(_handle, FullName).LastWritten;

    /// <inheritdoc/>
    public override unsafe void NoteTime()
    {
        if (_handle is not null)
            _ = LinuxNative.futimens(_handle, null);
    }

    /// <inheritdoc/>
    public override void Downgrade()
    {
        // This cannot wait long: a process takes this lock exclusively only under the `open` lock, which our caller holds, and a
        // probe releases it at once. A try without waiting would lose the lock when it fails, because the kernel drops it first.
        if (_handle is null)
            return;
        while (LinuxNative.flock(_handle, LinuxNative.LOCK_SH) != 0)
        {
            int errno = LinuxErrors.Last;
            if (errno == DiskErrors.EINTR)
                continue;
            Dispose();
            throw LinuxErrors.Make("Cannot turn the exclusive lock into a shared one", FullName, errno);
        }
    }

    /// <inheritdoc/>
    public override void Dispose()
    {
        if (_handle is null || !s_held.TryRemove(this))
            return;

        // An explicit unlock and not only a close: a child that is just being started holds copies of all descriptors until its
        // exec, and the lock lives as long as the last copy.
        _ = LinuxNative.flock(_handle, LinuxNative.LOCK_UN);
        _handle.Dispose();
    }

    /// <summary>flock(2) without waiting; false when another open holds the lock.</summary>
    internal static bool TryFlock(LinuxHandle handle, LockKind kind, string path)
    {
        int operation = (kind == LockKind.Exclusive ? LinuxNative.LOCK_EX : LinuxNative.LOCK_SH) | LinuxNative.LOCK_NB;
        while (LinuxNative.flock(handle, operation) != 0)
        {
            int errno = LinuxErrors.Last;
            if (errno == DiskErrors.EAGAIN)
                return false;
            if (errno != DiskErrors.EINTR)
                throw LinuxErrors.Make("Cannot lock the file", path, errno);
        }

        return true;
    }
}

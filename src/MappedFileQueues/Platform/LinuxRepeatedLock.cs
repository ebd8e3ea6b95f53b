using System.Diagnostics;

namespace MappedFileQueues.Platform;

/// <summary>
/// flock(2) on one open file: taking it is a system call, and once in a while a look at the name, and allocates nothing.
/// <para>The name may have come to mean another file; a lock on the old one protects nothing. That may happen just behind the
/// look as well, which costs as much as the lock: so it is repeated only when the last one is some milliseconds old.</para>
/// </summary>
internal sealed class LinuxRepeatedLock(LinuxDirectory directory, string name) : RepeatedLock(directory, name)
{
    /// <summary>How long a look counts for those who take the lock thousands of times a second.</summary>
    private static readonly TimeSpan LookLastsFor = TimeSpan.FromMilliseconds(10);

    private readonly LinuxDirectory _directory = directory;
    private readonly string _name = name;
    private readonly string _path = directory.FullName(name);
    private LinuxHandle? _handle;
    private FileIdentity _identity;
    private long _looked;

    /// <inheritdoc/>
    public override bool TryTake()
    {
        const int ReplacedTriesMax = 1000;
        for (int tries = 0; tries < ReplacedTriesMax; tries++)
        {
            LinuxHandle handle = _handle ??= Open();
            if (!LinuxLock.TryFlock(handle, LockKind.Exclusive, _path))
                return false;
            long now = Stopwatch.GetTimestamp();
            if (_looked != 0 && Stopwatch.GetElapsedTime(_looked, now) < LookLastsFor)
                return true;
            if (_directory.Identify(_name) == _identity)
            {
                _looked = now;
                return true;
            }

            Close();
        }

        throw LinuxErrors.Make("Cannot lock the file, it is replaced each time", _path, DiskErrors.EAGAIN);
    }

    /// <inheritdoc/>
    public override void LetGo()
    {
        // By command: a child that is just being started holds a copy of the descriptor until its exec.
        if (_handle is not null)
            _ = LinuxNative.flock(_handle, LinuxNative.LOCK_UN);
    }

    /// <inheritdoc/>
    public override void Dispose() => Close();

    private LinuxHandle Open()
    {
        LinuxHandle handle = _directory.OpenForLock(_name);
        _identity = LinuxDirectory.Stat(handle, _path).Identity;
        _looked = 0;
        return handle;
    }

    private void Close()
    {
        LetGo();
        _handle?.Dispose();
        _handle = null;
    }
}

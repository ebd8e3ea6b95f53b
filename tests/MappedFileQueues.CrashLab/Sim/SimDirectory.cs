using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Sim;

/// <summary>The store's directory, as one simulated process holds it open.</summary>
internal sealed class SimDirectory(SimServices os) : HeldDirectory
{
    private readonly SimDisk _disk = os.Disk;

    public override string Path => SimDisk.Root;

    public override string? UnsafeFileSystem => null;

    public override bool IsStillInPlace => true;

    public override long FreeBytes => (_disk.Faults?.BlocksLeft ?? int.MaxValue) * (long)SimFile.Page;

    public override PlatformFile? Open(string name, FileOpening opening)
    {
        SimFile? file;
        bool isNew = false;
        if (opening != FileOpening.Read)
            ThrowIfNoHandle(name);
        lock (_disk.Gate)
        {
            file = _disk.Find(name);
            if (file is not null && opening == FileOpening.CreateNew)
                return null;
            if (file is null && opening is (FileOpening.CreateNew or FileOpening.ReadWriteOrCreate))
            {
                ThrowIfNoFolder(name);
                file = _disk.Create(name);
                isNew = true;
            }
        }

        if (file is null)
            return null;
        if (isNew)
            _disk.Point?.Invoke($"made {name}");
        return new SimPlatformFile(os, file, name);
    }

    public override bool RenameWithoutReplacing(string from, string to)
    {
        _disk.Point?.Invoke($"renaming {from}");
        lock (_disk.Gate)
        {
            if (_disk.Find(to) is not null)
                return false;
            MoveFile(from, to);
        }

        _disk.Point?.Invoke($"renamed {from}");
        return true;
    }

    public override void Rename(string from, string to)
    {
        _disk.Point?.Invoke($"renaming {from}");
        lock (_disk.Gate)
            MoveFile(from, to);
        _disk.Point?.Invoke($"renamed {from}");
    }

    public override bool Delete(string name)
    {
        bool deleted;
        lock (_disk.Gate)
            deleted = _disk.Remove(name);
        if (deleted)
            _disk.Point?.Invoke($"deleted {name}");
        return deleted;
    }

    public override bool CreateSubdirectory(string name)
    {
        bool made;
        lock (_disk.Gate)
        {
            ThrowIfNoFolder(name);
            made = _disk.MakeFolder(name);
        }

        if (made)
            _disk.Point?.Invoke($"made folder {name}");
        return made;
    }

    public override IReadOnlyList<string> List(string subdirectory)
    {
        lock (_disk.Gate)
        {
            return
            [
                .. _disk.Names.Keys.Concat(_disk.Folders).Where(name => SimDisk.FolderOf(name) == subdirectory)
                    .Select(name => name[(name.LastIndexOf('/') + 1)..]).Order(StringComparer.Ordinal),
            ];
        }
    }

    public override void FlushEntries(string subdirectory)
    {
        _disk.Point?.Invoke($"flushing folder {subdirectory}");
        lock (_disk.Gate)
        {
            if (!_disk.IsFolder(subdirectory))
                throw _disk.Error("Cannot flush the directory", subdirectory, DiskErrors.ENOENT, "No such file or directory");
            if (_disk.Faults?.FailsFolderSync?.Invoke(subdirectory) == true)
                throw _disk.Error("Cannot flush the directory", subdirectory, DiskErrors.EIO, "Input/output error");
            _disk.FlushFolder(subdirectory);
        }

        _disk.Point?.Invoke($"flushed folder {subdirectory}");
    }

    public override PlatformLock? TryLock(string name, LockKind kind, bool create = true)
    {
        ThrowIfNoHandle(name);
        PlatformLock? taken = Take(name, kind, create);
        if (taken is not null || _disk.Refused is not { } refused)
            return taken;
        refused(name);
        return Take(name, kind, create);
    }

    public override PlatformLock? Probe(string name, LockKind kind = LockKind.Shared)
    {
        ThrowIfNoHandle(name);
        lock (_disk.Gate)
        {
            return _disk.Find(name) is null || os.IsDead
                ? new SimLock(_disk.Locks, os, "")
                : _disk.Locks.TryTake(os, name, kind);
        }
    }

    public override FileIdentity? Identify(string name)
    {
        lock (_disk.Gate)
        {
            if (_disk.Find(name) is { } file)
                return new FileIdentity(1, (ulong)file.Id);
            return _disk.IsFolder(name) ? new FileIdentity(2, (ulong)name.Length) : null;
        }
    }

    public override void Dispose() => Interlocked.Decrement(ref os.OpenCount);

    private PlatformLock? Take(string name, LockKind kind, bool create)
    {
        lock (_disk.Gate)
        {
            if (os.IsDead)
                return new SimLock(_disk.Locks, os, "");
            if (_disk.Find(name) is null)
            {
                if (!create)
                    return null;
                ThrowIfNoFolder(name);
                _disk.Create(name);
            }

            return _disk.Locks.TryTake(os, name, kind);
        }
    }

    private void MoveFile(string from, string to)
    {
        ThrowIfNoFolder(to);
        if (_disk.Find(from) is null)
            throw _disk.Error($"Cannot rename the file to {to}", from, DiskErrors.ENOENT, "No such file or directory");
        _disk.Move(from, to);
    }

    private void ThrowIfNoFolder(string name)
    {
        if (!_disk.IsFolder(SimDisk.FolderOf(name)))
            throw _disk.Error("Cannot open the file", name, DiskErrors.ENOENT, "No such file or directory");
    }

    private void ThrowIfNoHandle(string name)
    {
        if (_disk.Faults?.FailsOpen?.Invoke(name) == true)
            throw _disk.Error("Cannot open the file", name, DiskErrors.EMFILE, "Too many open files");
    }
}

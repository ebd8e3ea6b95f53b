using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>A directory held by its descriptor; every name is resolved from there.</summary>
internal sealed unsafe class LinuxDirectory(string path, LinuxHandle handle, UnixFileMode? askedMode) : HeldDirectory
{
    // O_NONBLOCK matters only for what is not a regular file: opening a named pipe would wait for its other end.
    private const int OpenFlags = LinuxNative.O_CLOEXEC | LinuxNative.O_NOCTTY | LinuxNative.O_NONBLOCK;

    private const uint RightsBits = (uint)CreateModes.DirectoryBits;
    private const uint SpecialBits = 0xE00;     // octal 7000: set-user-ID, set-group-ID, sticky

    private string? _modelName;
    private volatile Model? _model;

    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override string? UnsafeFileSystem => LinuxFileSystems.UnsafeName(handle, path);

    /// <inheritdoc/>
    public override long FreeBytes => LinuxFileSystems.FreeBytes(handle, path);

    /// <inheritdoc/>
    public override bool IsStillInPlace =>
        TryIdentify(path, out LinuxStatx now) && now.IsDirectory && now.Identity == Stat(handle, path).Identity;

    private LinuxHandle Handle => handle;

    private static int DirectoryFlags => LinuxNative.O_RDONLY | LinuxNative.O_DIRECTORY | LinuxNative.O_CLOEXEC;

    /// <summary>Opens a directory; null when it is missing.</summary>
    public static LinuxHandle? OpenHandle(string path)
    {
        LinuxHandle opened = LinuxHandle.Open(path, DirectoryFlags);
        int errno = LinuxErrors.Last;
        return OrNullWhenMissing(opened, errno, "Cannot open the directory", path);
    }

    /// <summary>
    /// Creates a directory for files of this mode, and its missing parents as the umask says; null when another process came
    /// first.
    /// </summary>
    public static LinuxHandle? Make(string path, UnixFileMode? mode, bool ownerOnly)
    {
        UnixFileMode unasked = ownerOnly ? CreateModes.OwnersDirectory : CreateModes.DirectoryBits;
        UnixFileMode wanted = mode is { } files ? CreateModes.DirectoryOf(files) : unasked;
        if (!MakeWithParents(path, (uint)wanted))
            return null;
        return OpenHandle(path)?.Into(made =>
        {
            if (mode is not null)
                SetMode(made, wanted, isRequired: true, path);
            return made;
        });
    }

    /// <inheritdoc/>
    public override PlatformFile? Open(string name, FileOpening opening)
    {
        LinuxHandle? opened = OpenHandle(name, opening);
        return opened is null ? null : new LinuxFile(FullName(name), opened);
    }

    /// <inheritdoc/>
    public override void AdoptModeOf(string name)
    {
        _modelName = name;
        _ = LookAtModel();
    }

    /// <inheritdoc/>
    public override void AdoptOwner()
    {
        if (LookAtModel() is { } model)
            GiveToOwner(handle, model, path);
    }

    /// <inheritdoc/>
    public override bool RenameWithoutReplacing(string from, string to)
    {
        if (LinuxNative.renameat2(LinuxNative.SYS_renameat2, handle, from, handle, to, LinuxNative.RENAME_NOREPLACE) == 0)
            return true;
        int errno = LinuxErrors.Last;
        return errno switch
        {
            DiskErrors.EEXIST => false,
            DiskErrors.EINVAL or DiskErrors.ENOSYS => RenameByLink(from, to),
            DiskErrors.EPERM when IsDenied() => RenameByLink(from, to),
            _ => throw LinuxErrors.Make($"Cannot rename the file to {to}", FullName(from), errno),
        };
    }

    /// <inheritdoc/>
    public override void Rename(string from, string to)
    {
        if (LinuxNative.renameat(handle, from, handle, to) == 0)
            return;
        int errno = LinuxErrors.Last;
        throw LinuxErrors.Make($"Cannot rename the file to {to}", FullName(from), errno);
    }

    /// <inheritdoc/>
    public override bool TryLink(string name, HeldDirectory target, string targetName)
    {
        if (target is not LinuxDirectory other)
            return false;
        if (LinuxNative.linkat(handle, name, other.Handle, targetName, LinuxNative.AT_SYMLINK_FOLLOW) == 0)
            return true;
        int errno = LinuxErrors.Last;

        // EPERM: the file system has no links, or the system protects files of other users (fs.protected_hardlinks).
        return errno is DiskErrors.EXDEV or DiskErrors.EPERM or DiskErrors.EACCES or DiskErrors.EMLINK or DiskErrors.EOPNOTSUPP
            ? false
            : throw LinuxErrors.Make($"Cannot link the file to {other.FullName(targetName)}", FullName(name), errno);
    }

    /// <inheritdoc/>
    public override bool Delete(string name)
    {
        if (LinuxNative.unlinkat(handle, name, 0) == 0)
            return true;
        int errno = LinuxErrors.Last;
        return errno == DiskErrors.ENOENT ? false : throw LinuxErrors.Make("Cannot delete the file", FullName(name), errno);
    }

    /// <inheritdoc/>
    public override bool CreateSubdirectory(string name)
    {
        Model? model = LookAtModel();
        UnixFileMode? files = ModeOfFiles(model);
        UnixFileMode wanted =
            files is { } exact ? CreateModes.DirectoryOf(exact) : CreateModes.DirectoryIn((UnixFileMode)Stat(handle, path).Mode);
        if (LinuxNative.mkdirat(handle, name, (uint)wanted) != 0)
        {
            int errno = LinuxErrors.Last;
            return errno == DiskErrors.EEXIST && TryIdentify(name, out LinuxStatx there) && there.IsDirectory
                ? false
                : throw LinuxErrors.Make("Cannot make the directory", FullName(name), errno);
        }

        using LinuxHandle? made = OpenSubdirectory(name);
        if (made is not null && model is not null)
            GiveToOwner(made, model, FullName(name));
        if (made is not null && files is not null)
            SetMode(made, wanted, isRequired: askedMode is not null, FullName(name));
        return true;
    }

    /// <inheritdoc/>
    public override void AvoidCopyOnWrite(string subdirectory)
    {
        using LinuxHandle? opened = OpenSubdirectory(subdirectory);
        int flags;
        if (opened is null || !LinuxFileSystems.IsBtrfs(opened, FullName(subdirectory))
            || LinuxNative.ioctl(opened, LinuxNative.FS_IOC_GETFLAGS, &flags) != 0)
            return;

        // btrfs refuses NOCOW as long as a flag for compression is set, and accepts no change of both in one call.
        int uncompressed = flags & ~LinuxNative.CompressionFlags;
        if (uncompressed != flags)
            _ = LinuxNative.ioctl(opened, LinuxNative.FS_IOC_SETFLAGS, &uncompressed);
        flags = uncompressed | LinuxNative.FS_NOCOW_FL;
        _ = LinuxNative.ioctl(opened, LinuxNative.FS_IOC_SETFLAGS, &flags);
    }

    /// <inheritdoc/>
    public override IReadOnlyList<string> List(string subdirectory)
    {
        using LinuxHandle? opened = OpenSubdirectory(subdirectory);
        return opened is null ? [] : LinuxEntries.Read(opened, FullName(subdirectory));
    }

    /// <inheritdoc/>
    public override void FlushFileSystem()
    {
        while (LinuxNative.syncfs(handle) != 0)
        {
            int errno = LinuxErrors.Last;
            if (errno != DiskErrors.EINTR)
                throw LinuxErrors.Make("Cannot flush the file system", path, errno);
        }
    }

    /// <inheritdoc/>
    public override void FlushEntries(string subdirectory) => FlushEntries(subdirectory, failed: null);

    /// <inheritdoc/>
    public override void FlushEntries(string subdirectory, Action? failed)
    {
        string full = FullName(subdirectory);
        // Itself it holds open: a process that has no descriptor left can flush it.
        using LinuxHandle? opened = subdirectory.Length == 0 ? null : OpenSubdirectory(subdirectory)
            ?? throw LinuxErrors.Make("Cannot flush the directory", full, DiskErrors.ENOENT);
        FlushEntries(opened ?? handle, full, failed);
    }

    /// <inheritdoc/>
    public override PlatformLock? TryLock(string name, LockKind kind, bool create = true)
    {
        FileOpening opening = create ? FileOpening.ReadWriteOrCreate : FileOpening.ReadWrite;
        LinuxLock? taken = LinuxLock.TryTake(this, name, kind, () => OpenHandle(name, opening));
        return taken is { IsOfMissingFile: true } ? null : taken;
    }

    /// <inheritdoc/>
    public override void KeepFromCleaners() => _ = LinuxNative.flock(handle, LinuxNative.LOCK_SH | LinuxNative.LOCK_NB);

    /// <inheritdoc/>
    public override RepeatedLock OpenRepeatedLock(string name) => new LinuxRepeatedLock(this, name);

    // Read only: a reader without write rights must be able to check whether the owner of a claim lives.
    /// <inheritdoc/>
    public override PlatformLock? Probe(string name, LockKind kind = LockKind.Shared) =>
        LinuxLock.TryTake(this, name, kind, () => OpenHandle(name, FileOpening.Read));

    /// <inheritdoc/>
    public override IReadOnlyList<int>[] LockHolders(params ReadOnlySpan<string> names)
    {
        FileIdentity?[] files = new FileIdentity?[names.Length];
        for (int i = 0; i < files.Length; i++)
            files[i] = Identify(names[i]);
        return LinuxLockHolders.Find(handle, files);
    }

    /// <inheritdoc/>
    public override FileIdentity? Identify(string name) => TryIdentify(name, out LinuxStatx found) ? found.Identity : null;

    /// <inheritdoc/>
    public override void Dispose() => handle.Dispose();

    /// <summary>Opens a lock file, and creates it when it is missing.</summary>
    internal LinuxHandle OpenForLock(string name) => OpenHandle(name, FileOpening.ReadWriteOrCreate)!;

    /// <summary>The path of a name in this directory, for messages.</summary>
    internal string FullName(string name) => name.Length == 0 ? path : System.IO.Path.Combine(path, name);

    /// <summary>What the system knows about an open file.</summary>
    internal static LinuxStatx Stat(LinuxHandle file, string path)
    {
        LinuxStatx result;
        if (LinuxStat.Read(file, "", LinuxNative.AT_EMPTY_PATH, &result) == 0)
            return result;
        int errno = LinuxErrors.Last;
        throw LinuxErrors.Make("Cannot ask for the state of the file", path, errno);
    }

    /// <summary>
    /// Restores the rights that the umask took away: the caller chose the mode, or it is the mode by which the store's users
    /// share it. What a directory of a group passes on (set-group-ID) stays. A file system without modes (FAT) may refuse, which
    /// is an error only for a mode that the caller chose.
    /// </summary>
    private static void SetMode(LinuxHandle made, UnixFileMode mode, bool isRequired, string path)
    {
        uint now = Stat(made, path).Mode;
        if ((now & RightsBits) == (uint)mode || LinuxNative.fchmod(made, (now & SpecialBits) | (uint)mode) == 0)
            return;
        int errno = LinuxErrors.Last;
        if (!isRequired)
            return;
        throw LinuxErrors.Make("Cannot set the mode", path, errno);
    }

    /// <summary>
    /// What root makes belongs to the store's owner, whose processes could not open it otherwise; what a member of the store's
    /// group makes belongs to that group. Where the system refuses, the file stays as it is.
    /// </summary>
    private static void GiveToOwner(LinuxHandle made, Model model, string path)
    {
        const uint Root = 0;
        const uint Unchanged = uint.MaxValue;
        LinuxStatx now = Stat(made, path);
        uint user = now.UserId == Root && model.UserId != Root ? model.UserId : Unchanged;
        // Of a file that is not there yet only root takes the group too: the folder's says nothing about who shares the store.
        uint group = now.GroupId != model.GroupId && (model.Mode is not null || user != Unchanged) ? model.GroupId : Unchanged;
        if (user != Unchanged || group != Unchanged)
            _ = LinuxNative.fchown(made, user, group);
    }

    /// <summary>
    /// Whether a sandbox denies the rename that never replaces; then EPERM says nothing about the file. The kernel finds no file
    /// of an empty name.
    /// </summary>
    private bool IsDenied() =>
        LinuxNative.renameat2(LinuxNative.SYS_renameat2, handle, "", handle, "", LinuxNative.RENAME_NOREPLACE) != 0
        && LinuxErrors.Last == DiskErrors.EPERM;

    private UnixFileMode? ModeOfFiles(Model? model) => (askedMode & CreateModes.FileBits) ?? model?.Mode;

    /// <summary>
    /// Looks each time: a `chmod` or `chown` of a store that is open counts for what is made afterwards. Until the file is there,
    /// the directory's owner is the store's.
    /// </summary>
    private Model? LookAtModel()
    {
        if (_modelName is null)
            return null;
        if (TryIdentify(_modelName, out LinuxStatx found))
            _model = new Model((UnixFileMode)found.Mode & CreateModes.FileBits, found.UserId, found.GroupId);
        if (_model is not null)
            return _model;
        LinuxStatx folder = Stat(handle, path);
        return new Model(null, folder.UserId, folder.GroupId);
    }

    private bool TryIdentify(string name, out LinuxStatx result)
    {
        LinuxStatx found;
        nint code = LinuxStat.Read(handle, name, 0, &found);
        int errno = LinuxErrors.Last;
        result = found;
        // This runs before each flush, so the full path is built only for an error.
        return code == 0 || (errno is DiskErrors.ENOENT or DiskErrors.ENOTDIR
            ? false
            : throw LinuxErrors.Make("Cannot ask for the state of the file", FullName(name), errno));
    }

    private static LinuxHandle? OrNullWhenMissing(LinuxHandle opened, int errno, string failed, string path)
    {
        if (!opened.IsInvalid)
            return opened;
        opened.Dispose();
        return errno == DiskErrors.ENOENT ? null : throw LinuxErrors.Make(failed, path, errno);
    }

    private static bool MakeWithParents(string path, uint mode)
    {
        if (LinuxNative.mkdir(path, mode) != 0)
        {
            int errno = LinuxErrors.Last;
            string? parent = System.IO.Path.GetDirectoryName(path);
            if (errno == DiskErrors.EEXIST)
                return false;
            if (errno != DiskErrors.ENOENT || parent is null)
                throw LinuxErrors.Make("Cannot make the directory", path, errno);
            _ = MakeWithParents(parent, RightsBits);
            if (LinuxNative.mkdir(path, mode) != 0)
            {
                errno = LinuxErrors.Last;
                return errno is DiskErrors.EEXIST or DiskErrors.ENOENT
                    ? false
                    : throw LinuxErrors.Make("Cannot make the directory", path, errno);
            }
        }

        FlushParent(path);
        return true;
    }

    /// <summary>
    /// Makes the entry of a new directory durable if this process may read its parent; otherwise it cannot, and continues.
    /// </summary>
    private static void FlushParent(string path)
    {
        string parent = System.IO.Path.GetDirectoryName(path) ?? "/";
        using LinuxHandle opened = LinuxHandle.Open(parent, DirectoryFlags);
        if (!opened.IsInvalid)
            FlushEntries(opened, parent);
    }

    private static void FlushEntries(LinuxHandle directory, string path, Action? failed = null)
    {
        while (LinuxNative.fsync(directory) != 0)
        {
            int errno = LinuxErrors.Last;

            // EINVAL: this file system has no fsync for directories; there is nothing better to do.
            if (errno == DiskErrors.EINVAL)
                return;
            if (errno == DiskErrors.EINTR)
                continue;
            failed?.Invoke();
            QueueDiskException error = LinuxErrors.Make("Cannot flush the directory", path, errno);
            throw new QueueDiskException(error.Message, errno, path) { MayHaveLostData = true };
        }
    }

    private LinuxHandle? OpenSubdirectory(string subdirectory)
    {
        LinuxHandle opened = LinuxHandle.Open(handle, subdirectory.Length == 0 ? "." : subdirectory, DirectoryFlags);
        int errno = LinuxErrors.Last;
        return OrNullWhenMissing(opened, errno, "Cannot open the directory", FullName(subdirectory));
    }

    private LinuxHandle? OpenHandle(string name, FileOpening opening)
    {
        if (opening == FileOpening.CreateNew)
            return CreateHandle(name);
        const int RemovedTriesMax = 1000;
        for (int tries = 0; tries < RemovedTriesMax; tries++)
        {
            int access = opening == FileOpening.Read ? LinuxNative.O_RDONLY : LinuxNative.O_RDWR;
            LinuxHandle opened = LinuxHandle.Open(handle, name, access | OpenFlags);
            int errno = LinuxErrors.Last;
            LinuxHandle? found = OrNullWhenMissing(opened, errno, "Cannot open the file", FullName(name));
            if (found is not null)
                return RegularFile(found, name);
            if (opening != FileOpening.ReadWriteOrCreate)
                return null;
            found = CreateHandle(name);
            if (found is not null)
                return found;
        }

        throw LinuxErrors.Make("Cannot open the file, which is removed each time", FullName(name), DiskErrors.ENOENT);
    }

    private LinuxHandle RegularFile(LinuxHandle opened, string name) => opened.Into(file =>
    {
        LinuxStatx state = Stat(file, FullName(name));
        return state.IsRegularFile ? file : throw LinuxErrors.Make(
            "Cannot use this as a file of the store", FullName(name), state.IsDirectory ? DiskErrors.EISDIR : DiskErrors.EINVAL);
    });

    private LinuxHandle? CreateHandle(string name)
    {
        Model? model = LookAtModel();
        UnixFileMode? exact = ModeOfFiles(model);
        UnixFileMode wanted = exact ?? CreateModes.FileIn((UnixFileMode)Stat(handle, path).Mode);
        LinuxHandle opened = LinuxHandle.Open(
            handle, name, LinuxNative.O_RDWR | LinuxNative.O_CREAT | LinuxNative.O_EXCL | OpenFlags, (uint)wanted);
        int errno = LinuxErrors.Last;
        if (opened.IsInvalid)
        {
            opened.Dispose();
            return errno == DiskErrors.EEXIST ? null : throw LinuxErrors.Make("Cannot make the file", FullName(name), errno);
        }

        return opened.Into(made =>
        {
            if (model is not null)
                GiveToOwner(made, model, FullName(name));
            if (exact is not null)
                SetMode(made, wanted, isRequired: askedMode is not null, FullName(name));
            return made;
        });
    }

    /// <summary>
    /// For file systems without RENAME_NOREPLACE. A crash in between leaves the file under both names, never a replaced one.
    /// </summary>
    private bool RenameByLink(string from, string to)
    {
        if (LinuxNative.linkat(handle, from, handle, to, 0) != 0)
        {
            int errno = LinuxErrors.Last;
            return errno == DiskErrors.EEXIST
                ? false
                : throw LinuxErrors.Make($"Cannot link the file to {to}", FullName(from), errno);
        }

        _ = Delete(from);
        return true;
    }

    /// <summary>Whose store it is, and what mode its files have; no mode before the first file decides it.</summary>
    private sealed record Model(UnixFileMode? Mode, uint UserId, uint GroupId);
}

using System.Globalization;

namespace MappedFileQueues.Platform;

/// <summary>How <see cref="HeldDirectory.Open"/> opens a file.</summary>
internal enum FileOpening
{
    /// <summary>Read only; null when missing.</summary>
    Read,

    /// <summary>Read and write; null when missing.</summary>
    ReadWrite,

    /// <summary>Read and write; created when missing.</summary>
    ReadWriteOrCreate,

    /// <summary>Read and write; created now. Null when something has that name already.</summary>
    CreateNew,
}

/// <summary>Shared or exclusive.</summary>
internal enum LockKind
{
    /// <summary>Together with other shared holders.</summary>
    Shared,

    /// <summary>Alone.</summary>
    Exclusive,
}

/// <summary>
/// A directory that is held open. Names are relative to it ("queue.meta", "commitlog/0….log"), so a directory that is renamed or
/// replaced under an open store is never mixed up with it (Portable keeps only the path). Errors of the system are
/// <see cref="QueueDiskException"/> with errno and path; a missing file is null or false, as each member says.
/// </summary>
internal abstract class HeldDirectory : IDisposable
{
    /// <summary>The full path under which it was opened.</summary>
    public abstract string Path { get; }

    /// <summary>
    /// Opens a file; null as <see cref="FileOpening"/> says. New files get the mode given to
    /// <see cref="OperatingSystemServices.OpenDirectory"/>. Anything but a regular file (a directory, a named pipe) is an error.
    /// </summary>
    public abstract PlatformFile? Open(string name, FileOpening opening);

    /// <summary>
    /// Gives everything created here from now on the mode of this file, unless
    /// <see cref="OperatingSystemServices.OpenDirectory"/> was given another one. The process that created that file has decided
    /// for all processes that share the directory: a file created under a narrower umask would lock the others out (SQLite does
    /// the same for the journal of a database). On Linux the same holds for the group, and for the user of what root creates.
    /// While the file is missing, only what root creates is changed: it gets the directory's owner.
    /// </summary>
    public virtual void AdoptModeOf(string name)
    {
    }

    /// <summary>
    /// Gives this directory, which the caller has just made, to the owner of the file of <see cref="AdoptModeOf"/>, too, when
    /// root made it (Linux).
    /// </summary>
    public virtual void AdoptOwner()
    {
    }

    /// <summary>
    /// Gives a file another name unless that name is taken; false when it is taken. Never replaces a file. On Portable on Unix
    /// this is one step only among the threads of this process; between processes the caller holds a lock (`prepare`) that all
    /// renaming processes hold.
    /// </summary>
    public abstract bool RenameWithoutReplacing(string from, string to);

    /// <summary>Gives a file another name, replacing any file of that name.</summary>
    public abstract void Rename(string from, string to);

    /// <summary>
    /// Gives a file one more name, in another directory, which must be free there. A link as the last part of the name is
    /// followed. False where a file cannot have a second name (another file system, no right to link it, too many names;
    /// Portable): then nothing was changed. A missing file is a <see cref="QueueDiskException"/>.
    /// </summary>
    public virtual bool TryLink(string name, HeldDirectory target, string targetName) => false;

    /// <summary>
    /// Removes a file; false when it was not there (Portable: if two callers remove it at once, both may get true).
    /// </summary>
    public abstract bool Delete(string name);

    /// <summary>Removes the files of a subdirectory whose names are chosen, in the order of their names.</summary>
    public void DeleteWhere(string subdirectory, Predicate<string> chooses)
    {
        foreach (string name in List(subdirectory))
        {
            if (chooses(name))
                Delete($"{subdirectory}/{name}");
        }
    }

    /// <summary>Creates a subdirectory unless it is there; true when this call created it.</summary>
    public abstract bool CreateSubdirectory(string name);

    /// <summary>
    /// Asks that what is created from now on in a subdirectory ("" = this one) be overwritten in place. btrfs writes every block
    /// to a new place instead, so that a store into a mapping needs free room even where the file has blocks, and on a full disk,
    /// or at the end of a quota, is SIGBUS. Does nothing elsewhere, nor where the system refuses it.
    /// </summary>
    public virtual void AvoidCopyOnWrite(string subdirectory)
    {
    }

    /// <summary>
    /// The names (not paths) of the files and directories in a subdirectory ("" = this one), in ordinal order; empty when it is
    /// missing.
    /// </summary>
    public abstract IReadOnlyList<string> List(string subdirectory);

    /// <summary>Makes the entries of a subdirectory ("" = this one) survive a power loss; does nothing on Portable.</summary>
    public abstract void FlushEntries(string subdirectory);

    /// <summary>Like the other overload, for a caller that has to tell others of an error before anything else happens.</summary>
    /// <param name="subdirectory">Which subdirectory.</param>
    /// <param name="failed">Called when the disk failed to take the entries; before the exception is created, where that is
    /// possible. It must not throw.</param>
    public virtual void FlushEntries(string subdirectory, Action? failed)
    {
        try
        {
            FlushEntries(subdirectory);
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            failed?.Invoke();
            throw;
        }
    }

    /// <summary>Like <see cref="FlushEntries(string)"/>, unless the subdirectory is missing.</summary>
    public void FlushEntriesIfThere(string subdirectory)
    {
        if (Identify(subdirectory) is not null)
            FlushEntries(subdirectory);
    }

    /// <summary>Opens a file, unless it is missing, only to sync what others have stored in it.</summary>
    /// <exception cref="QueueDiskException">Data may be lost, if it says so.</exception>
    public void Sync(string name)
    {
        using PlatformFile? file = Open(name, OpeningToSync);
        file?.Sync();
    }

    /// <summary>
    /// Linux syncs a file of another user that this one may only read; other systems ask for the right to write.
    /// </summary>
    public virtual FileOpening OpeningToSync => FileOpening.Read;

    /// <summary>
    /// Makes everything on the directory's file system survive a power loss: for files whose names nobody knows. As slow as all
    /// that others have written there. Does nothing on Portable.
    /// </summary>
    public virtual void FlushFileSystem()
    {
    }

    /// <summary>
    /// Takes a kernel lock on the file without waiting. Null when another open of it, in this process or any other, holds the
    /// lock against this kind. The system drops the lock when the process dies. Linux then compares the inodes of descriptor and
    /// path and tries again when they differ. A file that cannot be opened at all (EMFILE, EACCES, ...) is a
    /// <see cref="QueueDiskException"/>: unknown, never "free".
    /// </summary>
    /// <param name="name">The file; its content means nothing.</param>
    /// <param name="kind">Shared or exclusive.</param>
    /// <param name="create">Creates the file when it is missing; otherwise null then, too.</param>
    public abstract PlatformLock? TryLock(string name, LockKind kind, bool create = true);

    /// <summary>
    /// Marks the directory as in use (flock(2), shared), until this object is disposed: systemd-tmpfiles leaves everything below
    /// such a directory alone. A hint; no decision depends on it. Portable: nothing.
    /// </summary>
    public virtual void KeepFromCleaners()
    {
    }

    /// <summary>A lock that will be taken often; created without taking it.</summary>
    public virtual RepeatedLock OpenRepeatedLock(string name) => new(this, name);

    /// <summary>
    /// Checks whether a lock of this kind could be taken, by taking it without waiting: a shared one, so whether the lock is held
    /// exclusively, unless the caller asks for more. Returns the taken lock, to be disposed after use, when it could; null when
    /// not. Needs no right to write, and creates no file: nothing holds the lock of a missing file (a dummy is returned). Errors
    /// as for <see cref="TryLock"/>.
    /// </summary>
    public abstract PlatformLock? Probe(string name, LockKind kind = LockKind.Shared);

    /// <summary>
    /// For each of these files the ids of the processes that hold the lock on it, as far as the system tells (Linux: /proc/locks,
    /// which is read once for all of them); may be empty. For messages, not for decisions.
    /// </summary>
    public virtual IReadOnlyList<int>[] LockHolders(params ReadOnlySpan<string> names)
    {
        IReadOnlyList<int>[] unknown = new IReadOnlyList<int>[names.Length];
        Array.Fill(unknown, []);
        return unknown;
    }

    /// <summary>The error for a lock that is held elsewhere; it names the holder.</summary>
    /// <param name="lockName">The lock's file.</param>
    /// <param name="what">What the caller cannot have.</param>
    /// <param name="remedy">What the user can do.</param>
    /// <param name="place">What the message is about, in its own words; null for the directory.</param>
    /// <param name="waited">How long the caller waited; null for not at all.</param>
    public QueueInUseException InUse(
        string lockName, string what, string remedy, string? place = null, TimeSpan? waited = null)
    {
        IReadOnlyList<int> holders = LockHolders(lockName)[0];
        string names = holders.Count == 0
            ? "unknown"
            : string.Join(",", holders.Select(id =>
                id == Environment.ProcessId ? "this process" : $"pid {id.ToString(CultureInfo.InvariantCulture)}"));
        string time = waited is null ? "" : $", waited={waited}";
        return new QueueInUseException($"{what}: {place ?? $"path={Path}"}, holder={names}{time}. {remedy}", holders);
    }

    /// <summary>
    /// Identifies the file that the name means now (device and inode); null when missing. Portable: always the same value.
    /// </summary>
    public abstract FileIdentity? Identify(string name);

    /// <summary>
    /// The name of the file system if it is a network or FUSE one (NFS, CIFS, SMB2, FUSE, 9P, ...), on which shared mappings or
    /// locks between processes are not dependable; null otherwise.
    /// </summary>
    public abstract string? UnsafeFileSystem { get; }

    /// <summary>How many bytes of the file system this user may still fill.</summary>
    public abstract long FreeBytes { get; }

    /// <summary>True when the path is still this directory, not deleted or replaced; Portable: when the path exists.</summary>
    public abstract bool IsStillInPlace { get; }

    /// <summary>Closes the directory; open files, locks and mappings stay.</summary>
    public abstract void Dispose();
}

/// <summary>The mode of new files and directories on Unix.</summary>
internal static class CreateModes
{
    /// <summary>The rights that a file may have.</summary>
    public const UnixFileMode FileBits = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead
        | UnixFileMode.GroupWrite | UnixFileMode.OtherRead | UnixFileMode.OtherWrite;

    /// <summary>The rights that a directory may have.</summary>
    public const UnixFileMode DirectoryBits =
        FileBits | UnixFileMode.UserExecute | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute;

    /// <summary>What a mode has to be, for messages.</summary>
    public const string Expected =
        "permissions in octal such as 600 or 0640, up to 0777, with read and write for the owner";

    /// <summary>A directory for its owner alone.</summary>
    public const UnixFileMode OwnersDirectory = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;

    /// <summary>
    /// Whether new files may have this mode. What the owner cannot read and write it could not open again. The rule also finds
    /// octal and decimal taken for each other: 0600 to 0777 are 384 to 511, of which no digits are octal with a 6 or 7 first, and
    /// 600 as a decimal number has bits above 0777.
    /// </summary>
    public static bool IsUsable(UnixFileMode mode) =>
        (mode & ~DirectoryBits) == 0
        && (mode & (UnixFileMode.UserRead | UnixFileMode.UserWrite)) == (UnixFileMode.UserRead | UnixFileMode.UserWrite);

    /// <summary>
    /// The mode that a new file asks for when no mode was given: as much as the directory grants, but no right of others to
    /// write. The system takes away what the umask forbids.
    /// </summary>
    public static UnixFileMode FileIn(UnixFileMode directory) => directory & FileBits & ~UnixFileMode.OtherWrite;

    /// <summary>The same for a directory in it.</summary>
    public static UnixFileMode DirectoryIn(UnixFileMode directory) => directory & DirectoryBits & ~UnixFileMode.OtherWrite;

    /// <summary>
    /// The mode by which the users of a directory share its files: that of one of them, less what the directory keeps from them.
    /// Null where nobody here can tell.
    /// </summary>
    /// <param name="file">The path of that file.</param>
    public static UnixFileMode? SharedAs(string file)
    {
        if (OperatingSystem.IsWindows())
            return null;
        try
        {
            UnixFileMode shared = File.GetUnixFileMode(file);
            UnixFileMode folder = File.GetUnixFileMode(Path.GetDirectoryName(file)!);
            // A file system without modes shows one, and refuses to set another. No file of a store can be executed.
            return (shared & UnixFileMode.UserExecute) != 0
                ? null
                : (folder & shared & FileBits) | UnixFileMode.UserRead | UnixFileMode.UserWrite;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>
    /// The mode of a directory whose files have this mode: every user that may read or write the files may enter it.
    /// </summary>
    public static UnixFileMode DirectoryOf(UnixFileMode file)
    {
        UnixFileMode mode = file & FileBits;
        if ((mode & (UnixFileMode.UserRead | UnixFileMode.UserWrite)) != 0)
            mode |= UnixFileMode.UserExecute;
        if ((mode & (UnixFileMode.GroupRead | UnixFileMode.GroupWrite)) != 0)
            mode |= UnixFileMode.GroupExecute;
        if ((mode & (UnixFileMode.OtherRead | UnixFileMode.OtherWrite)) != 0)
            mode |= UnixFileMode.OtherExecute;
        return mode;
    }
}

/// <summary>Distinguishes two files that have the same name one after the other.</summary>
/// <param name="Device">The device.</param>
/// <param name="Inode">The inode.</param>
internal readonly record struct FileIdentity(ulong Device, ulong Inode);

/// <summary>Distinguishes a file from its copies, as far as the system can.</summary>
/// <param name="Inode">The inode; 0 where it is unknown.</param>
/// <param name="Birth">The creation time in ticks; 0 where it is unknown.</param>
internal readonly record struct FileOrigin(ulong Inode, long Birth)
{
    public static FileOrigin Of(PlatformFile file) => new(file.Identity.Inode, file.Birth?.UtcTicks ?? 0);

    /// <summary>
    /// True if the two are certainly different files. The creation times decide where both are known: some file systems give a
    /// file another inode number at each mount.
    /// </summary>
    public bool DiffersFrom(FileOrigin other) => Birth != 0 && other.Birth != 0
        ? Birth != other.Birth
        : Inode != 0 && other.Inode != 0 && Inode != other.Inode;
}

/// <summary>A held kernel lock. Disposing releases it; a second dispose does nothing.</summary>
internal abstract class PlatformLock : IDisposable
{
    /// <summary>
    /// Turns the exclusive lock into a shared one. The kernel's own downgrade may drop the lock for a moment, so this is only
    /// done under the store's `open` lock. Portable closes the file and opens it again. When this throws, nothing is held any
    /// longer.
    /// </summary>
    public abstract void Downgrade();

    /// <summary>
    /// True while the lock's name still means the locked file: until the store is deleted, or somebody removes the lock's file.
    /// Portable: while any file has that name.
    /// </summary>
    public virtual bool IsInPlace => true;

    /// <summary>When <see cref="NoteTime"/> was called last, by any process; null where that is unknown.</summary>
    public virtual DateTimeOffset? NotedTime => null;

    /// <summary>Makes this moment the time of modification of the lock's file. A hint: an error is not reported.</summary>
    public virtual void NoteTime()
    {
    }

    /// <summary>Releases the lock; the file stays.</summary>
    public abstract void Dispose();
}

using System.Globalization;

namespace MappedFileQueues.Platform;

/// <summary>How <see cref="HeldDirectory.Open"/> opens a file.</summary>
internal enum FileOpening
{
    /// <summary>Read only; null when missing.</summary>
    Read,

    /// <summary>Read and write; null when missing.</summary>
    ReadWrite,

    /// <summary>Read and write, made when missing.</summary>
    ReadWriteOrCreate,

    /// <summary>Read and write, made now; null when something stands there already.</summary>
    CreateNew,
}

/// <summary>Shared or alone.</summary>
internal enum LockKind
{
    /// <summary>Together with other shared holders.</summary>
    Shared,

    /// <summary>Alone.</summary>
    Exclusive,
}

/// <summary>
/// A directory that is held open: names are relative to it ("queue.meta", "commitlog/0….log"), so that a folder that is
/// renamed or replaced under an open store is never mixed up with it (Portable keeps only the path). Errors of the system
/// are <see cref="QueueDiskException"/> with errno and path; a missing file is null or false, as each member says.
/// </summary>
internal abstract class HeldDirectory : IDisposable
{
    /// <summary>The full path under which it was opened.</summary>
    public abstract string Path { get; }

    /// <summary>
    /// Opens a file; null as <see cref="FileOpening"/> says. New files get the mode that <see cref="OperatingSystemServices
    /// .OpenDirectory"/> was told. What is no regular file (a folder, a named pipe) is an error.
    /// </summary>
    public abstract PlatformFile? Open(string name, FileOpening opening);

    /// <summary>
    /// From now on what is made here gets the mode of this file, unless <see cref="OperatingSystemServices.OpenDirectory"/> was
    /// told another one: whoever made that file has decided for all who share the directory, and a file that one of them makes
    /// under a narrower umask would lock the others out (SQLite does the same for the journal of a database). Does nothing when
    /// it is missing.
    /// </summary>
    public virtual void AdoptModeOf(string name)
    {
    }

    /// <summary>
    /// Gives a file another name unless that name is taken; false when it is taken. Never replaces. Portable on Unix: one step
    /// only among the threads of this process; between processes the caller holds a lock (`prepare`) that all renamers hold.
    /// </summary>
    public abstract bool RenameWithoutReplacing(string from, string to);

    /// <summary>Gives a file another name, replacing what stood there.</summary>
    public abstract void Rename(string from, string to);

    /// <summary>Removes a file; false when it was not there (Portable: of two who remove it at once both may get true).</summary>
    public abstract bool Delete(string name);

    /// <summary>Makes a subdirectory unless it is there; true when this call made it.</summary>
    public abstract bool CreateSubdirectory(string name);

    /// <summary>
    /// The names (not paths) of the files and folders in a subdirectory ("" = this one), in ordinal order; empty when it is
    /// missing.
    /// </summary>
    public abstract IReadOnlyList<string> List(string subdirectory);

    /// <summary>Makes the entries of a subdirectory ("" = this one) survive a power cut; does nothing on Portable.</summary>
    public abstract void FlushEntries(string subdirectory);

    /// <summary>As the other, for those who have to tell others of an error before anything else happens.</summary>
    /// <param name="subdirectory">Which.</param>
    /// <param name="failed">Called when the disk failed to take the entries, before the exception is made where that is
    /// possible. Must not throw.</param>
    public virtual void FlushEntries(string subdirectory, Action failed)
    {
        try
        {
            FlushEntries(subdirectory);
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            failed();
            throw;
        }
    }

    /// <summary>
    /// Takes a kernel lock on the file, made when missing (its content means nothing), without waiting; null when another
    /// open of it, in this process or any other, holds it against this kind. The system drops it when the process dies.
    /// Linux compares the inodes of descriptor and path afterwards and tries again when they differ.
    /// Cannot be opened at all (EMFILE, EACCES, ...) is a <see cref="QueueDiskException"/>: unknown, never "free".
    /// </summary>
    public abstract PlatformLock? TryLock(string name, LockKind kind);

    /// <summary>A lock that is to be taken often; made without taking it.</summary>
    public virtual RepeatedLock OpenRepeatedLock(string name) => new(this, name);

    /// <summary>
    /// Looks whether anyone holds the lock exclusively, by a shared lock without waiting: the lock taken, to be disposed after
    /// use, when nobody does; null when somebody does. Makes no file: a missing file is a lock that nobody holds (a dummy
    /// is returned). Errors as <see cref="TryLock"/>.
    /// </summary>
    public abstract PlatformLock? Probe(string name);

    /// <summary>
    /// The process ids that hold the lock on this file, as far as the system tells (Linux: /proc/locks); may be empty. For
    /// people, not for decisions.
    /// </summary>
    public abstract IReadOnlyList<int> LockHolders(string name);

    /// <summary>The error for a lock that somebody else holds, which names who that is.</summary>
    /// <param name="lockName">The lock's file.</param>
    /// <param name="what">What cannot be had.</param>
    /// <param name="remedy">What the user can do.</param>
    /// <param name="place">What it is about, as the message says it; null for the directory.</param>
    /// <param name="waited">How long it was waited for; null for not at all.</param>
    public QueueInUseException InUse(
        string lockName, string what, string remedy, string? place = null, TimeSpan? waited = null)
    {
        IReadOnlyList<int> holders = LockHolders(lockName);
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
    /// The name of the file system when it is a network or FUSE one (NFS, CIFS, SMB2, FUSE, 9P, ...), on which shared
    /// mappings or locks between processes are not dependable; else null.
    /// </summary>
    public abstract string? UnsafeFileSystem { get; }

    /// <summary>True when the path is still this directory, not deleted or replaced; Portable: when it exists.</summary>
    public abstract bool IsStillInPlace { get; }

    /// <summary>Lets go of the directory; open files, locks and mappings stay.</summary>
    public abstract void Dispose();
}

/// <summary>The mode of what is made in a directory, on Unix.</summary>
internal static class CreateModes
{
    /// <summary>What a file may have.</summary>
    public const UnixFileMode FileBits = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead
        | UnixFileMode.GroupWrite | UnixFileMode.OtherRead | UnixFileMode.OtherWrite;

    /// <summary>What a directory may have.</summary>
    public const UnixFileMode DirectoryBits =
        FileBits | UnixFileMode.UserExecute | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute;

    /// <summary>A directory for its owner alone.</summary>
    public const UnixFileMode OwnersDirectory = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;

    /// <summary>
    /// What a new file asks for when no mode was named: as much as the directory grants, but nothing that others may write. The
    /// system takes away what the umask forbids.
    /// </summary>
    public static UnixFileMode FileIn(UnixFileMode directory) => directory & FileBits & ~UnixFileMode.OtherWrite;

    /// <summary>The same for a directory in it.</summary>
    public static UnixFileMode DirectoryIn(UnixFileMode directory) => directory & DirectoryBits & ~UnixFileMode.OtherWrite;

    /// <summary>The mode of a directory whose files have this mode: whoever may read or write these may enter it.</summary>
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

/// <summary>What tells two files apart that bear the same name one after the other.</summary>
/// <param name="Device">The device.</param>
/// <param name="Inode">The inode.</param>
internal readonly record struct FileIdentity(ulong Device, ulong Inode);

/// <summary>A held kernel lock. Disposing lets it go; a second dispose does nothing.</summary>
internal abstract class PlatformLock : IDisposable
{
    /// <summary>
    /// Turns the exclusive lock into a shared one. The kernel's own downgrade may drop the lock for a moment, so it is
    /// only done under the store's `open` lock. Portable closes and opens again. When it throws, nothing is held any more.
    /// </summary>
    public abstract void Downgrade();

    /// <summary>
    /// The lock's name still means the file that is locked: it does until the whole store is deleted. Portable: some file.
    /// </summary>
    public virtual bool IsInPlace => true;

    /// <summary>Lets the lock go; the file stays (only the deletion of the store unlinks lock files).</summary>
    public abstract void Dispose();
}

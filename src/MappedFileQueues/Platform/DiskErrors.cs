namespace MappedFileQueues.Platform;

/// <summary>
/// Phrases an error of the system: what failed, the values, the remedy. Both implementations use the error numbers of Linux, so
/// that callers can test for a full disk without knowing the platform.
/// </summary>
internal static class DiskErrors
{
    /// <summary>Operation not permitted.</summary>
    public const int EPERM = 1;

    /// <summary>No such file or directory.</summary>
    public const int ENOENT = 2;

    /// <summary>A signal came first; the call is made again.</summary>
    public const int EINTR = 4;

    /// <summary>The device failed.</summary>
    public const int EIO = 5;

    /// <summary>The name of a device.</summary>
    public const int ENXIO = 6;

    /// <summary>Try again; also a lock that another open holds, and a futex word that has changed.</summary>
    public const int EAGAIN = 11;

    /// <summary>Out of memory or of mappings.</summary>
    public const int ENOMEM = 12;

    /// <summary>Permission denied.</summary>
    public const int EACCES = 13;

    /// <summary>An address that is not mapped.</summary>
    public const int EFAULT = 14;

    /// <summary>Something of that name exists.</summary>
    public const int EEXIST = 17;

    /// <summary>The two names are on different file systems.</summary>
    public const int EXDEV = 18;

    /// <summary>The file system cannot map files.</summary>
    public const int ENODEV = 19;

    /// <summary>A part of the path is not a directory.</summary>
    public const int ENOTDIR = 20;

    /// <summary>A directory where a file was wanted.</summary>
    public const int EISDIR = 21;

    /// <summary>Invalid argument; also an operation that the file system does not know.</summary>
    public const int EINVAL = 22;

    /// <summary>Too many open files in the system.</summary>
    public const int ENFILE = 23;

    /// <summary>Too many open files in this process.</summary>
    public const int EMFILE = 24;

    /// <summary>The kind of file does not know the command.</summary>
    public const int ENOTTY = 25;

    /// <summary>The file would become too large.</summary>
    public const int EFBIG = 27;

    /// <summary>No space left on the device.</summary>
    public const int ENOSPC = 28;

    /// <summary>A read-only file system.</summary>
    public const int EROFS = 30;

    /// <summary>The file cannot have more names.</summary>
    public const int EMLINK = 31;

    /// <summary>The name is too long.</summary>
    public const int ENAMETOOLONG = 36;

    /// <summary>No locks available.</summary>
    public const int ENOLCK = 37;

    /// <summary>The system does not know the call.</summary>
    public const int ENOSYS = 38;

    /// <summary>Too many symbolic links.</summary>
    public const int ELOOP = 40;

    /// <summary>The file system does not support the operation.</summary>
    public const int EOPNOTSUPP = 95;

    /// <summary>The wait reached its time-out.</summary>
    public const int ETIMEDOUT = 110;

    /// <summary>The disk quota is used up.</summary>
    public const int EDQUOT = 122;

    /// <summary>True if nothing but room is missing: the disk is full, or the quota is used up.</summary>
    public static bool IsFull(int errno) => errno is ENOSPC or EDQUOT;

    /// <summary>True if nothing was wrong with the call: the process or the system has too little of something now.</summary>
    public static bool IsShortage(int errno) => errno is EMFILE or ENFILE or ENOMEM;

    /// <summary>Creates the exception.</summary>
    /// <param name="failed">What failed, as the beginning of a sentence: "Cannot open the file".</param>
    /// <param name="path">The file or directory.</param>
    /// <param name="errno">The error number.</param>
    /// <param name="systemText">The system's own words for it.</param>
    /// <param name="inner">The cause, if there is one.</param>
    public static QueueDiskException Make(string failed, string path, int errno, string systemText, Exception? inner = null) =>
        new($"{failed}: path={path}, errno={errno} ({systemText}). {Remedy(errno)}", errno, path, inner);

    private static string Remedy(int errno) => errno switch
    {
        ENOSPC => "Free space on that file system, then try again.",
        EDQUOT => "Free space or raise the quota of this user, then try again.",
        EACCES => "Give this user rights to the directory and its contents (to read is enough for what only reads), "
            + "or run as its owner.",
        EPERM => "Run as the owner of the store and its files; in a sandbox, let its seccomp profile allow this call.",
        EROFS => "Mount the file system writable, or only read: MappedFileReader.Open and PackStore.OpenReader need no write.",
        EMFILE => "Raise the limit of open files of this process (ulimit -n), or keep fewer queues and readers open.",
        ENFILE => "The whole system has too many open files: close some, or raise fs.file-max.",
        ENOTDIR => "A part of the path is a file, or not a directory: name a directory, or move the file away.",
        EISDIR => "A directory has the name of a file of the store: move it away, or name another store directory.",
        EFBIG => "Raise the limit of file sizes (ulimit -f, or the file system's own), "
            + "or use shorter files (SegmentSize, VolumeSize, RollLength).",
        ENOENT => "Check the path; a part of the store may have been removed while it was in use.",
        EEXIST => "Something of that name is in the way: move it away, or name another store directory.",
        ENXIO => "Use another name.",
        ENAMETOOLONG => "Use a shorter store path or consumer name.",
        ELOOP => "The path contains a loop of symbolic links: repair the links.",
        EIO => "The device failed: check the kernel's log, close every user of the store, check the disk, then open again.",
        ENOMEM => "Use a smaller SegmentSize, free memory, or raise vm.max_map_count and the memory limit.",
        ENOSYS => "The kernel does not know the call, or a sandbox denies it: let its seccomp profile allow the call.",
        ENOLCK or ENODEV or EINVAL or EOPNOTSUPP =>
            "The file system may lack what a store needs: put it on a local one (ext4, xfs, btrfs, tmpfs).",
        _ => "Look up the error number for this system, and check the file system that holds the path.",
    };
}

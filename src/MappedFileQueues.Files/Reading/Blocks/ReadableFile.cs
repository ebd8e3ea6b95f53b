using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// Any regular file, opened for reading from start to end. Others may read, write, rename, delete and truncate it meanwhile.
/// Errors of the system are <see cref="QueueDiskException"/> with errno and path. All members may be called from any thread.
/// </summary>
internal abstract class ReadableFile : IDisposable
{
    /// <summary>The full path under which it was opened, for messages.</summary>
    public abstract string Path { get; }

    /// <summary>The length in bytes, read anew each time.</summary>
    public abstract long Length { get; }

    /// <summary>Identifies this file, whatever its name; null where that is unknown (Portable).</summary>
    public virtual FileMark? Mark => null;

    /// <summary>The time of the last write, in nanoseconds since 1970; Portable: 0.</summary>
    public virtual long Modified => 0;

    /// <summary>
    /// Opens a file for reading. A missing file is a <see cref="QueueNotFoundException"/>. Anything but a regular file (a
    /// directory, a named pipe, a device) is an error too, because it has no positions to read ahead from; Portable recognizes
    /// only directories.
    /// </summary>
    public static ReadableFile Open(string path) => TryOpen(path) ?? throw new QueueNotFoundException(
        $"Cannot open the file for reading: path={path}, errno={DiskErrors.ENOENT}. Check the path.",
        System.IO.Path.GetFullPath(path));

    /// <summary>The same; null when the file is missing.</summary>
    public static ReadableFile? TryOpen(string path)
    {
        string full = SystemPath.Full(path);
        return CurrentPlatform.Services.IsPortable ? PortableReadableFile.TryOpenFile(full) : LinuxReadableFile.TryOpenFile(full);
    }

    /// <summary>Reads at a position; fewer bytes only where the file ends at that moment.</summary>
    public abstract int ReadAt(Span<byte> destination, long position);

    /// <summary>
    /// Reads what the system already holds in memory, without waiting for a disk. 0 when that is nothing, at the end of the file,
    /// and where the system cannot tell (Portable: always). Never fails: a read that may wait meets the error again.
    /// </summary>
    public abstract int ReadCachedAt(Span<byte> destination, long position);

    /// <summary>True if the system has the byte in memory now; false where it cannot tell. May begin to read it.</summary>
    public bool IsCached(long position)
    {
        Span<byte> one = stackalloc byte[1];
        return ReadCachedAt(one, position) == 1;
    }

    /// <summary>Tells the system that the file will be read from front to back. A hint; never fails.</summary>
    public abstract void AdviseSequential();

    /// <summary>
    /// Maps a range for reading, whatever the file's length is; the position is a multiple of a page. An access beyond the end of
    /// the file ends the process. Null where the system refuses (too many mappings, a file of /proc), and on Portable, where
    /// nothing tells whether an access is safe. The view outlives this object.
    /// </summary>
    public virtual MappedView? TryMap(long position, long length) => null;

    /// <summary>Closes the file.</summary>
    public abstract void Dispose();

    /// <summary>The error for anything else that the system refuses.</summary>
    protected static QueueDiskException Refused(
        string failed, string path, int errno, string systemText, Exception? inner = null) =>
        new($"{failed}: path={path}, errno={errno} ({systemText}). {Remedy(errno)}", errno, path, inner);

    private static string Remedy(int errno) => errno switch
    {
        DiskErrors.EACCES or DiskErrors.EPERM => "Give this user the right to read the file and to enter its directories.",
        DiskErrors.EISDIR or DiskErrors.EINVAL => "Name a regular file; directories, pipes and devices cannot be read ahead.",
        DiskErrors.EMFILE => "Raise the limit of open files of this process (ulimit -n), or keep fewer files open.",
        DiskErrors.EIO => "The device failed: check the kernel's log and the disk.",
        _ => "Look up the error number for this system, and check the file system that holds the path.",
    };
}

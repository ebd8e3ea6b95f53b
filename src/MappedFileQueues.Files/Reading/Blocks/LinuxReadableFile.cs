using System.Runtime.InteropServices;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>A file by its descriptor, read by pread(2), with posix_fadvise(2) for read-ahead.</summary>
internal sealed unsafe class LinuxReadableFile(string path, LinuxHandle handle) : ReadableFile
{
    // O_NONBLOCK matters only for what is not a regular file: opening a named pipe would wait for its other end.
    private const int OpenFlags =
        LinuxNative.O_RDONLY | LinuxNative.O_CLOEXEC | LinuxNative.O_NOCTTY | LinuxNative.O_NONBLOCK;

    private volatile bool _canReadCached = true;

    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override long Length => (long)LinuxDirectory.Stat(handle, Path).Size;

    /// <inheritdoc/>
    public override FileMark? Mark
    {
        get
        {
            LinuxStatx state = LinuxDirectory.Stat(handle, Path);
            return new FileMark(state.Inode, state.Birth);
        }
    }

    /// <inheritdoc/>
    public override long Modified => LinuxDirectory.Stat(handle, Path).Modified;

    /// <summary>Opens the file; see <see cref="ReadableFile.TryOpen"/>.</summary>
    public static LinuxReadableFile? TryOpenFile(string path)
    {
        LinuxHandle handle = LinuxHandle.Open(path, OpenFlags);
        int errno = LinuxErrors.Last;
        if (handle.IsInvalid)
        {
            handle.Dispose();
            return errno == DiskErrors.ENOENT ? null : throw Refused("Cannot open the file for reading", path, errno);
        }

        return handle.Into(opened =>
        {
            LinuxStatx state = LinuxDirectory.Stat(opened, path);
            return state.IsRegularFile
                ? new LinuxReadableFile(path, opened)
                : throw Refused(
                    "Cannot read this as a file", path, state.IsDirectory ? DiskErrors.EISDIR : DiskErrors.EINVAL);
        });
    }

    /// <inheritdoc/>
    public override int ReadAt(Span<byte> destination, long position)
    {
        int done = handle.ReadAt(destination, position, out int errno);
        return errno == 0 ? done : throw Refused($"Cannot read at {position + done}", Path, errno);
    }

    /// <inheritdoc/>
    public override int ReadCachedAt(Span<byte> destination, long position)
    {
        if (!_canReadCached)
            return 0;
        nint count;
        int errno;
        fixed (byte* start = destination)
        {
            LinuxIoVector vector = new() { Start = start, Length = (nuint)destination.Length };
            count = LinuxNative.preadv2(
                LinuxNative.SYS_preadv2, handle, &vector, 1, (nint)position, 0, LinuxNative.RWF_NOWAIT);
            errno = LinuxErrors.Last;
        }

        // EAGAIN: not in memory. The other errors mean an old kernel, or a file system that cannot tell, and come each time.
        if (count < 0 && errno is (DiskErrors.EOPNOTSUPP or DiskErrors.EINVAL or DiskErrors.ENOSYS))
            _canReadCached = false;
        return (int)Math.Max(count, 0);
    }

    /// <inheritdoc/>
    public override void AdviseSequential() =>
        _ = LinuxNative.posix_fadvise(handle, 0, 0, LinuxNative.POSIX_FADV_SEQUENTIAL);

    /// <inheritdoc/>
    public override MappedView? TryMap(long position, long length)
    {
        long fileLength = Length;
        LinuxView? view = LinuxView.TryMap(handle, position, length, writable: false, out _);
        view?.AskForCached(handle, fileLength);
        return view;
    }

    /// <inheritdoc/>
    public override void Dispose() => handle.Dispose();

    private static QueueDiskException Refused(string failed, string path, int errno) =>
        Refused(failed, path, errno, Marshal.GetPInvokeErrorMessage(errno));
}

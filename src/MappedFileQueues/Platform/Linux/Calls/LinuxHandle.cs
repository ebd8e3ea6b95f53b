using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// A file descriptor. It counts the calls in flight, so that closing it on one thread never lets another thread's call reach a
/// file that got the same number afterwards.
/// </summary>
internal sealed class LinuxHandle : SafeHandle
{
    private LinuxHandle(int descriptor)
        : base(-1, ownsHandle: true) => SetHandle(descriptor);

    /// <inheritdoc/>
    public override bool IsInvalid => handle == -1;

    /// <summary>The number, only for messages and for names below /proc/self.</summary>
    public int Number => (int)handle;

    /// <summary>
    /// openat(2) of a whole path. After an error the result is invalid, and the error is this thread's last P/Invoke error. (The
    /// marshaller would take the 32-bit result for a whole register, and so -1 for a good descriptor.)
    /// </summary>
    public static LinuxHandle Open(string path, int flags) => new(LinuxNative.openat(LinuxNative.AT_FDCWD, path, flags, 0));

    /// <summary>The same, relative to an open directory.</summary>
    public static LinuxHandle Open(LinuxHandle directory, string name, int flags, uint mode = 0) =>
        new(LinuxNative.openat(directory, name, flags, mode));

    /// <summary>memfd_create(2): a file that has no name.</summary>
    public static LinuxHandle OfMemory(nint flags) =>
        new((int)LinuxNative.memfd_create(LinuxNative.SYS_memfd_create, "", flags));

    /// <summary>
    /// pread(2) until the buffer is full or the file ends. Returns the number of bytes read; errno is that of a read that failed
    /// after them, or 0.
    /// </summary>
    public unsafe int ReadAt(Span<byte> destination, long position, out int errno)
    {
        int done = 0;
        fixed (byte* start = destination)
        {
            while (done < destination.Length)
            {
                nint count = LinuxNative.pread(this, start + done, destination.Length - done, position + done);
                errno = LinuxErrors.Last;
                if (count == 0)
                    break;
                if (count > 0)
                    done += (int)count;
                else if (errno != DiskErrors.EINTR)
                    return done;
            }
        }

        errno = 0;
        return done;
    }

    // close must not be tried again after EINTR: on Linux the descriptor is gone by then.
    /// <inheritdoc/>
    protected override bool ReleaseHandle() => LinuxNative.close((int)handle) == 0;
}

using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// Opens files past the system's cache, with the kernel's own flags, which .NET does not hand on. Buffers, positions and lengths
/// must be multiples of the device's block then, but for the last read of a file.
/// </summary>
internal static partial class DirectFiles
{
    public const int Read = 0;
    public const int WriteNew = 1 | 0x40 | 0x80;
    public const int WriteOld = 1;

    /// <summary>O_SYNC: each write waits until it is on disk, with what is needed to find it again, and the times.</summary>
    public const int Synchronous = 0x101000;

    /// <summary>O_DSYNC: the same without the times.</summary>
    public const int DataSynchronous = 0x1000;

    /// <summary>O_DIRECT, which is not the same number everywhere.</summary>
    public static readonly int PastTheCache =
        RuntimeInformation.ProcessArchitecture is Architecture.Arm64 or Architecture.Arm ? 0x10000 : 0x4000;

    private const int CloseOnExec = 0x80000;
    private const int OwnerReadsAndWrites = 0x180;

    /// <summary>Opens the file past the cache; null where the system or the file system has no such thing.</summary>
    public static SafeFileHandle? TryOpen(string path, int flags) =>
        OperatingSystem.IsLinux() ? TryOpenPlain(path, flags | PastTheCache) : null;

    /// <summary>Opens the file with these flags; null when the system refuses.</summary>
    public static SafeFileHandle? TryOpenPlain(string path, int flags)
    {
        int descriptor = Open(path, flags | CloseOnExec, OwnerReadsAndWrites);
        return descriptor < 0 ? null : new SafeFileHandle(descriptor, ownsHandle: true);
    }

    [LibraryImport("libc", EntryPoint = "open", StringMarshalling = StringMarshalling.Utf8, SetLastError = true)]
    private static partial int Open(string path, int flags, int mode);
}

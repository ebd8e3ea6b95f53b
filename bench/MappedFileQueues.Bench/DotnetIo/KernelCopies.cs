using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>
/// Copies that the kernel makes without the bytes passing through the program. Each returns an error number, 0 for none.
/// </summary>
internal static unsafe partial class KernelCopies
{
    /// <summary>The kernel copies, or shares, as the file system can.</summary>
    public static int CopyRange(SafeFileHandle from, SafeFileHandle to)
    {
        if (!OperatingSystem.IsLinux())
            return NotSupported;
        for (long left = RandomAccess.GetLength(from); left > 0;)
        {
            nint count = CopyFileRange(from, null, to, null, (nint)left, 0);
            if (count <= 0)
                return count < 0 ? Marshal.GetLastPInvokeError() : InputOutput;
            left -= count;
        }

        return 0;
    }

    /// <summary>Both files have the same blocks until one of them is written: btrfs, xfs.</summary>
    public static int ShareBlocks(SafeFileHandle from, SafeFileHandle to) =>
        !OperatingSystem.IsLinux() ? NotSupported
        : Control(to, CloneFile, (int)from.DangerousGetHandle()) == 0 ? 0 : Marshal.GetLastPInvokeError();

    private const int InputOutput = 5;
    private const int NotSupported = 95;

    /// <summary>FICLONE of linux/fs.h: _IOW(0x94, 9, int).</summary>
    private const nuint CloneFile = 0x40049409;

    [LibraryImport("libc", EntryPoint = "copy_file_range", SetLastError = true)]
    private static partial nint CopyFileRange(
        SafeFileHandle from, long* fromPosition, SafeFileHandle to, long* toPosition, nint length, uint flags);

    [LibraryImport("libc", EntryPoint = "ioctl", SetLastError = true)]
    private static partial int Control(SafeFileHandle file, nuint request, nint argument);
}

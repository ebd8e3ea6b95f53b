using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// Turns errno into exceptions. The number is read right after the failed call by the caller, because formatting a message in
/// between makes calls of its own and changes it.
/// </summary>
internal static class LinuxErrors
{
    /// <summary>The errno of this thread's last P/Invoke.</summary>
    public static int Last => Marshal.GetLastPInvokeError();

    /// <summary>Makes the exception.</summary>
    public static QueueDiskException Make(string failed, string path, int errno) =>
        DiskErrors.Make(failed, path, errno, Marshal.GetPInvokeErrorMessage(errno));
}

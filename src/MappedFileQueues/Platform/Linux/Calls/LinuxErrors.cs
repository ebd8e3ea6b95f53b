using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// Turns errno into exceptions. The caller reads the number right after the failed call, because formatting a message in between
/// makes calls of its own and changes it.
/// </summary>
internal static class LinuxErrors
{
    /// <summary>The errno of this thread's last P/Invoke.</summary>
    public static int Last => Marshal.GetLastPInvokeError();

    /// <summary>Creates the exception.</summary>
    public static QueueDiskException Make(string failed, string path, int errno) =>
        DiskErrors.Make(failed, path, errno, Marshal.GetPInvokeErrorMessage(errno));
}

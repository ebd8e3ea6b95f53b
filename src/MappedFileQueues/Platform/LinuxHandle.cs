using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform;

/// <summary>
/// A file descriptor. It counts the calls in flight, so that closing it in one thread never lets another thread's call reach a
/// file that got the same number afterwards.
/// </summary>
internal sealed class LinuxHandle : SafeHandle
{
    /// <summary>Made by the P/Invoke marshaller.</summary>
    public LinuxHandle()
        : base(-1, ownsHandle: true)
    {
    }

    /// <inheritdoc/>
    public override bool IsInvalid => handle == -1;

    /// <summary>The number, only for messages and for names below /proc/self.</summary>
    public int Number => (int)handle;

    // close must not be tried again after EINTR: on Linux the descriptor is gone by then.
    /// <inheritdoc/>
    protected override bool ReleaseHandle() => LinuxNative.close((int)handle) == 0;
}

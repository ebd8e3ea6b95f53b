using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// The `open` lock, which serialises openers. It is held only for short work, so the wait for it has a time-out of its own; then
/// the error names the holder (for example a stopped process).
/// </summary>
internal static class OpenLock
{
    /// <param name="directory">The store.</param>
    /// <param name="atLeast">How long it waits, if that is longer than <see cref="LockWait.Timeout"/>.</param>
    /// <param name="look">Called at each attempt; an exception from it ends the wait.</param>
    /// <param name="waits">Notes a long wait; null for none.</param>
    public static PlatformLock Take(HeldDirectory directory, TimeSpan atLeast, Action? look = null, LockWaits? waits = null)
    {
        TimeSpan timeout = atLeast > LockWait.Timeout ? atLeast : LockWait.Timeout;
        return TryTake(directory, timeout, look, waits) ?? throw directory.InUse(
            StoreNames.OpenLock, "Another process has been opening the store for too long", "Check that process.",
            waited: timeout);
    }

    /// <summary>As <see cref="Take"/>, but returns null when the time is up.</summary>
    public static PlatformLock? TryTake(
        HeldDirectory directory, TimeSpan timeout, Action? look = null, LockWaits? waits = null) =>
        LockWait.TryTake(directory, StoreNames.OpenLock, LockKind.Exclusive, timeout, look, waits);
}

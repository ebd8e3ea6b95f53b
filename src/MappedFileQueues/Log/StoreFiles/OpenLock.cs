using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// The `open` lock, which serialises openers. It is held for short work only, so waiting for it has a time-out of its own, after
/// which the holder (a stopped process, say) is named.
/// </summary>
internal static class OpenLock
{
    /// <summary>
    /// How long an opener waits for others that are opening, whatever LockTimeout says: recovery may run meanwhile.
    /// </summary>
    public static readonly TimeSpan Timeout = LockWait.Timeout;

    /// <param name="directory">The store.</param>
    /// <param name="atLeast">How long it waits, if that is longer than <see cref="Timeout"/>.</param>
    /// <param name="look">Called at each attempt; what it throws ends the wait.</param>
    public static PlatformLock Take(HeldDirectory directory, TimeSpan atLeast, Action? look = null)
    {
        TimeSpan timeout = atLeast > Timeout ? atLeast : Timeout;
        return TryTake(directory, timeout, look) ?? throw directory.InUse(
            StoreNames.OpenLock, "Another process is opening the store and does not come to an end", "Look at that process.",
            waited: timeout);
    }

    /// <summary>As the other; null when the time is up.</summary>
    public static PlatformLock? TryTake(HeldDirectory directory, TimeSpan timeout, Action? look = null) =>
        LockWait.TryTake(directory, StoreNames.OpenLock, LockKind.Exclusive, timeout, look);
}

using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log;

/// <summary>
/// The `open` lock, which serialises openers. It is held for short work only, so waiting for it has a time-out of its own, after
/// which the holder (a stopped process, say) is named.
/// </summary>
internal static class OpenLock
{
    /// <summary>
    /// How long an opener waits for others that are opening, whatever LockTimeout says: recovery may run meanwhile.
    /// </summary>
    public static readonly TimeSpan Timeout = TimeSpan.FromSeconds(30);

    public static PlatformLock Take(StoreDirectory directory, TimeSpan atLeast)
    {
        TimeSpan timeout = atLeast > Timeout ? atLeast : Timeout;
        return TryTake(directory, timeout) ?? throw new QueueInUseException(
            $"Another process is opening the store and does not come to an end: path={directory.Path}, "
            + $"holder={directory.NameLockHolders(StoreNames.OpenLock)}, waited={timeout}. Look at that process.");
    }

    /// <summary>As <see cref="Take"/>; null when the time is up.</summary>
    public static PlatformLock? TryTake(StoreDirectory directory, TimeSpan timeout)
    {
        long began = Stopwatch.GetTimestamp();
        var pause = new SpinWait();
        while (true)
        {
            if (directory.TryLock(StoreNames.OpenLock, LockKind.Exclusive) is { } taken)
                return taken;
            if (Stopwatch.GetElapsedTime(began) >= timeout)
                return null;
            if (pause.NextSpinWillYield)
                Thread.Sleep(1);
            else
                pause.SpinOnce();
        }
    }
}

using System.Diagnostics;

namespace MappedFileQueues.Threads;

/// <summary>
/// When something that hardly ever changes was last checked. A check costs system calls and may be outdated a moment later, so a
/// check counts for 10 ms, for callers that come thousands of times a second. One thread at a time may use it.
/// </summary>
internal struct RecentLook
{
    private static readonly TimeSpan LastsFor = TimeSpan.FromMilliseconds(10);

    private long _taken;

    /// <summary>True while the last check counts.</summary>
    /// <param name="now">For <see cref="Note"/>, when the caller checks again.</param>
    public readonly bool IsFresh(out long now)
    {
        now = Stopwatch.GetTimestamp();
        return _taken != 0 && Stopwatch.GetElapsedTime(_taken, now) < LastsFor;
    }

    /// <summary>Records that a check found nothing changed; it began at the given time.</summary>
    public void Note(long began) => _taken = began;
}

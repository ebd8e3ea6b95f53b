using System.Diagnostics;

namespace MappedFileQueues.Threads;

/// <summary>
/// When something that hardly ever changes was looked at last. A look costs system calls, and may be outdated the moment after:
/// so for those who come thousands of times a second it counts for 10 ms. For one thread at a time.
/// </summary>
internal struct RecentLook
{
    private static readonly TimeSpan LastsFor = TimeSpan.FromMilliseconds(10);

    private long _taken;

    /// <summary>True while the last look counts.</summary>
    /// <param name="now">For <see cref="Note"/>, when a look is taken instead.</param>
    public readonly bool IsFresh(out long now)
    {
        now = Stopwatch.GetTimestamp();
        return _taken != 0 && Stopwatch.GetElapsedTime(_taken, now) < LastsFor;
    }

    /// <summary>A look that began then found nothing changed.</summary>
    public void Note(long began) => _taken = began;
}

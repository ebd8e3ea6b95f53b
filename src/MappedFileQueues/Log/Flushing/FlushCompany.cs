using System.Diagnostics;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// How many callers of this process share a flush. Those that a flush has freed come back at once with their next message, but
/// the first of them would lead a flush for itself alone, and all the others would be woken twice for each message. So a leader
/// that expects company yields its processor until as many have come as the last flush has served, for half the time of that
/// flush at most, and never longer than the limit. Who is always alone never waits.
/// <para>What it is worth: docs/BENCHMARKS.md, `durable_64`.</para>
/// </summary>
/// <param name="patienceMax">The limit.</param>
internal sealed class FlushCompany(TimeSpan patienceMax)
{
    private int _came;
    private int _cameBefore;
    private int _expected;
    private TimeSpan _patience;

    /// <summary>A caller waits for a flush from now on. Any thread.</summary>
    public void Come() => Interlocked.Increment(ref _came); // P25 relaxed: a hint; pairs with P25 relaxed in Gather.

    /// <summary>Waits for those that are expected. The leader alone.</summary>
    /// <returns>How many have come since the last time.</returns>
    public int Gather()
    {
        int came = CameSince();
        if (came < _expected)
        {
            long began = Stopwatch.GetTimestamp();
            do
            {
                Thread.Yield();
                came = CameSince();
            }
            while (came < _expected && Stopwatch.GetElapsedTime(began) < _patience);
        }

        _cameBefore += came;
        return _expected = came;
    }

    /// <summary>How long a flush for several took. The leader alone.</summary>
    public void NoteFlush(TimeSpan time) => _patience = time / 2 < patienceMax ? time / 2 : patienceMax;

    // P25 relaxed: a hint; pairs with P25 relaxed in Come.
    private int CameSince() => Volatile.Read(ref _came) - _cameBefore;
}

using System.Diagnostics;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// Makes the callers of this process share a flush. Callers that a flush has freed come back at once with their next message.
/// Without this type the first of them would lead a flush for itself alone, and all others would wake twice for each message. So
/// a leader that expects company yields its processor until as many callers have come as the last flush served. It yields for at
/// most half the time of that flush, and never longer than the limit. A caller that is always alone never waits.
/// <para>What this is worth: docs/LOG.md, `durable_64`.</para>
/// </summary>
/// <param name="patienceMax">The limit.</param>
internal sealed class FlushCompany(TimeSpan patienceMax)
{
    private int _came;
    private int _cameBefore;
    private int _expected;
    private TimeSpan _patience;

    /// <summary>From now on a caller waits for a flush. Any thread.</summary>
    public void Come() => Interlocked.Increment(ref _came); // P25 relaxed: a hint; pairs with P25 relaxed in Gather.

    /// <summary>Waits for the expected callers. Only the leader may call it.</summary>
    /// <returns>How many callers have come since the last time.</returns>
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

    /// <summary>Records how long a flush for several callers took. Only the leader may call it.</summary>
    public void NoteFlush(TimeSpan time) => _patience = time / 2 < patienceMax ? time / 2 : patienceMax;

    // P25 relaxed: a hint; pairs with P25 relaxed in Come.
    private int CameSince() => Volatile.Read(ref _came) - _cameBefore;
}

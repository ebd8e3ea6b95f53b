namespace MappedFileQueues.Hosting.Queues;

/// <summary>
/// When the log was seen to have grown, so that an offset tells how long the message there has been waiting: the log itself
/// holds no times. Ages begin with the first look, and are up to one look too short.
/// </summary>
internal sealed class OffsetHistory(TimeProvider timeProvider)
{
    private const int CountMax = 1024;

    private readonly List<(long Offset, long Timestamp)> _seen = [];

    /// <summary>Notes the end of the log.</summary>
    public void Note(long end, long timestamp)
    {
        // After a power loss the log is shorter.
        while (_seen.Count > 0 && _seen[^1].Offset > end)
            _seen.RemoveAt(_seen.Count - 1);
        if (_seen.Count == 0 || _seen[^1].Offset < end)
            _seen.Add((end, timestamp));
        // The first one stays: what is as old as that keeps its age. What lay between gets that of the next younger one.
        if (_seen.Count > CountMax)
            _seen.RemoveRange(1, CountMax / 2);
    }

    /// <summary>How long there has been something at or beyond an offset; zero when there is nothing.</summary>
    public TimeSpan AgeOf(long offset, long now)
    {
        foreach ((long seen, long timestamp) in _seen)
        {
            if (seen > offset)
                return timeProvider.GetElapsedTime(timestamp, now);
        }

        return TimeSpan.Zero;
    }
}

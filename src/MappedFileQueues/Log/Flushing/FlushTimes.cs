using System.Diagnostics;

namespace MappedFileQueues.Log.Flushing;

/// <summary>How long the flushes took that this queue led. Written by the leader, read by any thread.</summary>
internal sealed class FlushTimes(TimeProvider timeProvider)
{
    private readonly Lock _lock = new();
    private DateTimeOffset? _last;
    private TimeSpan _total;
    private TimeSpan _longest;
    private long _count;

    public long Count
    {
        get
        {
            lock (_lock)
                return _count;
        }
    }

    public TimeSpan Total
    {
        get
        {
            lock (_lock)
                return _total;
        }
    }

    public TimeSpan Longest
    {
        get
        {
            lock (_lock)
                return _longest;
        }
    }

    public DateTimeOffset? Last
    {
        get
        {
            lock (_lock)
                return _last;
        }
    }

    /// <summary>A flush has succeeded. It costs some 50 ns beside a sync of 80 us and more.</summary>
    /// <param name="began">The timestamp at which it began.</param>
    public void Note(long began)
    {
        TimeSpan elapsed = Stopwatch.GetElapsedTime(began);
        DateTimeOffset now = timeProvider.GetUtcNow();
        lock (_lock)
        {
            _count++;
            _total += elapsed;
            _longest = elapsed > _longest ? elapsed : _longest;
            _last = now;
        }
    }
}

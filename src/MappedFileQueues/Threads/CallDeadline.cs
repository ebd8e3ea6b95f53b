namespace MappedFileQueues.Threads;

/// <summary>What ends a call that waits, other than success: its time is up, or its caller cancels it.</summary>
internal readonly struct CallDeadline(TimeSpan timeout, CancellationToken cancellationToken)
{
    private readonly Deadline _deadline = new(timeout);

    /// <summary>Waits without end.</summary>
    public static CallDeadline Endless => new(Timeout.InfiniteTimeSpan, CancellationToken.None);

    /// <summary>The time that the call was given.</summary>
    public TimeSpan TimeAllowed => timeout;

    public CancellationToken CancellationToken => cancellationToken;

    /// <summary>True when the time is up.</summary>
    public bool IsOver => _deadline.IsOver;

    /// <summary>The shorter of a sleep and the time left.</summary>
    public TimeSpan Limit(TimeSpan sleep)
    {
        TimeSpan left = _deadline.AsTimeout();
        return left == Timeout.InfiniteTimeSpan || left > sleep ? sleep : left;
    }
}

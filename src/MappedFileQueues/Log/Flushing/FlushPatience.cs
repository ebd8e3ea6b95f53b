using MappedFileQueues.Log.Store;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// How long a call waits for its flush. If the wait ends early, the message stays appended and visible; its durability is unknown
/// until a flush of any process has passed it.
/// </summary>
internal readonly struct FlushPatience(TimeSpan timeout, CancellationToken cancellationToken)
{
    private readonly Deadline _deadline = new(timeout);

    /// <summary>Waits as long as the flush takes.</summary>
    public static FlushPatience Endless => new(Timeout.InfiniteTimeSpan, CancellationToken.None);

    public CancellationToken CancellationToken => cancellationToken;

    /// <summary>True when the time is up.</summary>
    public bool IsOver => _deadline.IsOver;

    /// <summary>Throws when the time is up or the call was cancelled.</summary>
    public void ThrowIfOver(LogStore store, long goal)
    {
        if (cancellationToken.IsCancellationRequested)
            throw Cancelled(store, goal, cancellationToken);
        if (_deadline.IsOver)
            throw new TimeoutException("The flush did not end in time. The messages stay appended; their durability is not "
                + $"known yet: wanted={goal}, confirmed={store.ConfirmedOffset}, timeout={timeout}, path={store.Path}. "
                + "Check ConfirmedOffset, or call Flush; do not produce the messages again.");
    }

    /// <summary>The shorter of a sleep and the time left.</summary>
    public TimeSpan Limit(TimeSpan sleep)
    {
        TimeSpan left = _deadline.Left(sleep);
        return left < TimeSpan.Zero ? TimeSpan.Zero : left;
    }

    /// <summary>The exception for a call that was cancelled after its message was published.</summary>
    public static OperationCanceledException Cancelled(LogStore store, long goal, CancellationToken cancellationToken) => new(
        "Cancelled while waiting for the flush. The messages stay appended; their durability is not known yet: "
        + $"wanted={goal}, confirmed={store.ConfirmedOffset}, path={store.Path}. Do not produce the messages again.",
        cancellationToken);
}

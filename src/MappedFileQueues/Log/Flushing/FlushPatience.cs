using MappedFileQueues.Log.Store;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// How long a call waits for its flush. When it ends early the message stays where it is: appended, visible, its durability
/// unknown until somebody's flush has passed it.
/// </summary>
internal readonly struct FlushPatience(TimeSpan timeout, CancellationToken cancellationToken)
{
    private readonly Deadline _deadline = new(timeout);

    /// <summary>Waits until it is done.</summary>
    public static FlushPatience Endless => new(Timeout.InfiniteTimeSpan, CancellationToken.None);

    public CancellationToken CancellationToken => cancellationToken;

    /// <summary>Throws when the time is up or the call was cancelled.</summary>
    public void ThrowIfOver(LogStore store, long goal)
    {
        if (cancellationToken.IsCancellationRequested)
            throw Cancelled(store, goal, cancellationToken);
        if (_deadline.IsOver)
            throw new TimeoutException("The flush did not end in time; what was appended stays appended, its durability is not "
                + $"known yet: wanted={goal}, confirmed={store.ConfirmedOffset}, timeout={timeout}, path={store.Path}. "
                + "Look at ConfirmedOffset, or call Flush; do not produce it again.");
    }

    /// <summary>The shorter of a sleep and the time that is left.</summary>
    public TimeSpan Limit(TimeSpan sleep)
    {
        TimeSpan left = _deadline.Left(sleep);
        return left < TimeSpan.Zero ? TimeSpan.Zero : left;
    }

    /// <summary>The exception of a call that was cancelled when its message was published already.</summary>
    public static OperationCanceledException Cancelled(LogStore store, long goal, CancellationToken cancellationToken) => new(
        "Cancelled while waiting for the flush; what was appended stays appended, its durability is not known yet: "
        + $"wanted={goal}, confirmed={store.ConfirmedOffset}, path={store.Path}. Do not produce it again.",
        cancellationToken);
}

using System.Threading.Tasks.Sources;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// An asynchronous call that waits for a flush. Objects are reused (<see cref="PendingFlushes"/> keeps the free ones), and each
/// queues itself to the thread pool when it is done. So an asynchronous append allocates nothing, and continuations never run on
/// the flushing thread.
/// </summary>
internal sealed class PendingFlush(PendingFlushes owner) : IValueTaskSource<long>, IThreadPoolWorkItem
{
    private ManualResetValueTaskSourceCore<long> _core;
    private long _result;
    private Exception? _error;

    /// <summary>The offset that has to be confirmed.</summary>
    public long Goal { get; private set; }

    /// <summary>
    /// True if the caller chose the goal, which may lie beyond what is published: the published end is enough then.
    /// </summary>
    public bool IsGoalOpen { get; private set; }

    public CancellationTokenRegistration Registration { get; set; }

    public ValueTask<long> Task => new(this, _core.Version);

    private long? Offset { get; set; }

    /// <summary>Begins a new use.</summary>
    /// <param name="goal">The offset that has to be confirmed.</param>
    /// <param name="offset">The result; null for the confirmed offset.</param>
    public void Begin(long goal, long? offset)
    {
        Goal = goal;
        Offset = offset;
        IsGoalOpen = offset is null;
    }

    /// <summary>Moves the goal back to what is published now, if it lies beyond.</summary>
    public void LimitGoal(long published)
    {
        Goal = Math.Min(Goal, published);
        IsGoalOpen = false;
    }

    /// <summary>Ends the call. The caller has taken it out of the list, so it ends once.</summary>
    public void End(long confirmed, Exception? error)
    {
        // Waits for a cancellation callback under way, which finds that the call is no longer in the list.
        Registration.Dispose();
        Registration = default;
        _result = Offset ?? confirmed;
        _error = error;
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    /// <summary>The token calls this.</summary>
    public void Cancel(CancellationToken cancellationToken) => owner.Cancel(this, cancellationToken);

    /// <summary>Ends the call as cancelled: like <see cref="End"/>, from inside the registration's callback.</summary>
    public void EndCancelled(Exception error)
    {
        _error = error;
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    void IThreadPoolWorkItem.Execute()
    {
        if (_error is { } error)
            _core.SetException(error);
        else
            _core.SetResult(_result);
    }

    long IValueTaskSource<long>.GetResult(short token)
    {
        // Asked too early, or twice: the call continues for its awaiter, and the object must not be reused meanwhile.
        if (_core.GetStatus(token) == ValueTaskSourceStatus.Pending)
            throw new InvalidOperationException("The flush has not ended. Await the call once, or use AsTask.");
        try
        {
            return _core.GetResult(token);
        }
        finally
        {
            _core.Reset();
            _error = null;
            owner.Return(this);
        }
    }

    ValueTaskSourceStatus IValueTaskSource<long>.GetStatus(short token) => _core.GetStatus(token);

    void IValueTaskSource<long>.OnCompleted(
        Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _core.OnCompleted(continuation, state, token, flags);
}

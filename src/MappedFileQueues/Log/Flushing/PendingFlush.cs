using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// An asynchronous call that waits for a flush. <see cref="PendingFlushes"/> keeps the free ones, so an asynchronous append
/// allocates nothing.
/// </summary>
internal sealed class PendingFlush(PendingFlushes owner) : ReusedCompletion<long>
{
    /// <summary>The offset that has to be confirmed.</summary>
    public long Goal { get; private set; }

    /// <summary>
    /// True if the caller chose the goal, which may lie beyond what is published: the published end is enough then.
    /// </summary>
    public bool IsGoalOpen { get; private set; }

    public CancellationTokenRegistration Registration { get; set; }

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
        CompleteOnPool(Offset ?? confirmed, error);
    }

    /// <summary>The token calls this.</summary>
    public void Cancel(CancellationToken cancellationToken) => owner.Cancel(this, cancellationToken);

    /// <summary>Ends the call as cancelled: like <see cref="End"/>, from inside the registration's callback.</summary>
    public void EndCancelled(Exception error) => CompleteOnPool(0, error);

    protected override void Free() => owner.Return(this);
}

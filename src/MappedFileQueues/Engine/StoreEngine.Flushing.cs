using MappedFileQueues.Threads;

namespace MappedFileQueues.Engine;

/// <summary>The calls that wait until messages are on disk.</summary>
internal sealed partial class StoreEngine
{
    public long Flush()
    {
        using CallGate.Call call = BeginCall();
        return Flusher.Flush();
    }

    /// <summary>Completes when everything before the goal is on disk, as far as it is published at the call.</summary>
    public ValueTask<long> FlushAsync(long goal, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(cancellationToken);
        using CallGate.Call call = BeginCall();
        long confirmed = Store.ConfirmedOffset;
        if (goal <= confirmed)
            return ValueTask.FromResult(confirmed);
        Store.Producers.ThrowIfOwnClaimIsOpen();
        return Flusher.WaitForAsync(goal, null, cancellationToken);
    }

    /// <summary>Waits for a flush of everything before the goal.</summary>
    public void WaitForFlush(long goal, CallDeadline deadline)
    {
        using CallGate.Call call = BeginCall();
        Flusher.WaitFor(goal, deadline);
    }

    /// <summary>The same without blocking. The result is the offset that the caller passes.</summary>
    public ValueTask<long> WaitForFlushAsync(long goal, long offset, CancellationToken cancellationToken)
    {
        using CallGate.Call call = BeginCall();
        return Store.ConfirmedOffset >= goal
            ? ValueTask.FromResult(offset)
            : Flusher.WaitForAsync(goal, offset, cancellationToken);
    }
}

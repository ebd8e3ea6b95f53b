using MappedFileQueues.Log.Store;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// The asynchronous calls of a queue that wait for a flush. <see cref="FlushThread"/> serves them: one flush for all waiting
/// calls.
/// </summary>
internal sealed class PendingFlushes(LogStore store, LogFlusher flusher)
{
    /// <summary>How many free objects are kept; calls beyond that allocate new ones.</summary>
    private const int KeepMax = 1024;

    private readonly Lock _lock = new();
    private readonly Lock _ending = new();
    private readonly List<PendingFlush> _pending = [];
    private readonly List<PendingFlush> _ended = [];
    private readonly Stack<PendingFlush> _free = [];
    private bool _closed;

    /// <summary>True while any call waits.</summary>
    public bool IsAnyThere
    {
        get
        {
            lock (_lock)
                return _pending.Count > 0;
        }
    }

    /// <summary>Begins a wait for a goal. The result is the offset, or the confirmed offset if that is null.</summary>
    public ValueTask<long> Add(long goal, long? offset, CancellationToken cancellationToken)
    {
        flusher.Expect();
        ValueTask<long> task;
        lock (_lock)
        {
            PublicNames.ThrowIfDisposed(_closed, PublicNames.Queue);
            if (!_free.TryPop(out PendingFlush? pending))
                pending = new PendingFlush(this);
            pending.Begin(goal, offset);
            _pending.Add(pending);
            // Under the lock, so that the call cannot end before its registration is known, unless its token is already
            // cancelled.
            if (cancellationToken.CanBeCanceled)
                pending.Registration = cancellationToken.UnsafeRegister(
                    static (state, token) => ((PendingFlush)state!).Cancel(token), pending);
            task = pending.Task;
        }

        // A flush that confirmed the goal before the call was in the list did not see it, and the next progress may be far off.
        Interlocked.MemoryBarrier(); // P18 full: in the list before the look; pairs with P18 full in FlushRound.
        long confirmed = store.ConfirmedOffset;
        if (confirmed >= goal)
            End(confirmed, confirmed, null);
        return task;
    }

    /// <summary>
    /// Flushes for the waiting calls and ends those whose goal is confirmed. Only the flush thread calls it. Returns after any
    /// progress: the nearest goal may lie after an open claim, and a nearer one may have come meanwhile.
    /// </summary>
    public void Serve()
    {
        try
        {
            if (!TryFindNearest(out long nearest))
                return;
            long confirmed = store.ConfirmedOffset;
            if (confirmed < nearest)
                confirmed = flusher.WaitFor(confirmed + 1, FlushPatience.Endless);
            End(confirmed, confirmed, null);
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            // A thread that led learns of the disk error itself; one that only waited learns that the queue is poisoned.
            End(long.MaxValue, 0, error is QueueDiskException && store.Wake.IsPoisoned ? store.Poisoned(error) : error);
        }
    }

    /// <summary>Ends the queue: calls that its last flush covers succeed, the others fail.</summary>
    public void Close()
    {
        lock (_lock)
            _closed = true;
        long confirmed = store.ConfirmedOffset;
        End(confirmed, confirmed, null);
        End(long.MaxValue, 0, new ObjectDisposedException(PublicNames.Queue,
            "The queue was disposed before the flush. The messages stay appended; their durability is not known."));
    }

    public void Cancel(PendingFlush pending, CancellationToken cancellationToken)
    {
        lock (_lock)
        {
            // The message reads a mapped word: after the lock the queue may have ended.
            if (_pending.Remove(pending))
                pending.EndCancelled(FlushPatience.Cancelled(store, pending.Goal, cancellationToken));
        }
    }

    public void Return(PendingFlush pending)
    {
        lock (_lock)
        {
            if (_free.Count < KeepMax)
                _free.Push(pending);
        }
    }

    /// <summary>Finds the smallest goal. A goal that its caller chose is moved back to what is published by now.</summary>
    private bool TryFindNearest(out long nearest)
    {
        nearest = long.MaxValue;
        long published = -1;
        lock (_lock)
        {
            foreach (PendingFlush pending in _pending)
            {
                if (pending.IsGoalOpen)
                    pending.LimitGoal(published = published < 0 ? flusher.FindPublishedEnd() : published);
                nearest = Math.Min(nearest, pending.Goal);
            }

            return _pending.Count > 0;
        }
    }

    /// <summary>Ends the calls whose goal is reached.</summary>
    private void End(long reached, long confirmed, Exception? error)
    {
        lock (_ending)
        {
            lock (_lock)
            {
                for (int i = _pending.Count - 1; i >= 0; i--)
                {
                    if (_pending[i].Goal > reached)
                        continue;
                    _ended.Add(_pending[i]);
                    _pending.RemoveAt(i);
                }
            }

            // Outside the list's lock, which a cancellation under way may be waiting for. In the order of the calls.
            for (int i = _ended.Count - 1; i >= 0; i--)
                _ended[i].End(confirmed, error);
            _ended.Clear();
        }
    }
}

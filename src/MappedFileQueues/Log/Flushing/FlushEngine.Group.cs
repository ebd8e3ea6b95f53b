using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

// The callers that share a flush which another thread of this process leads: threads, which follow the leader, and asynchronous
// calls, for which the queue's thread waits, one flush for all of them.
internal sealed partial class FlushEngine
{
    /// <summary>The longest time that a leader yields to the callers it expects, however slow its disk is.</summary>
    private static readonly TimeSpan GatheringMax = TimeSpan.FromMilliseconds(1);

    /// <summary>How many free objects are kept for asynchronous calls; calls beyond that allocate new ones.</summary>
    private const int FreeMax = 1024;

    private readonly GroupCommitGate _group = new(store.Os, GatheringMax);
    private readonly Lock _listLock = new();
    private readonly Lock _ending = new();
    private readonly List<PendingFlush> _pending = [];
    private readonly List<PendingFlush> _ended = [];
    private readonly Stack<PendingFlush> _free = [];
    private bool _isListClosed;

    /// <summary>As <see cref="WaitFor"/>, without blocking. Call it inside a call of the queue.</summary>
    /// <param name="goal">What has to be on disk. Without an offset it may be beyond what is published.</param>
    /// <param name="offset">The result; null for the durable offset.</param>
    /// <param name="cancellationToken">Ends the wait; the messages stay appended.</param>
    public ValueTask<long> WaitForAsync(long goal, long? offset, CancellationToken cancellationToken)
    {
        // First: a call in a list that no thread serves would never end.
        EnsureStarted();
        Expect();
        ValueTask<long> task;
        lock (_listLock)
        {
            PublicNames.ThrowIfDisposed(_isListClosed, PublicNames.Queue);
            if (!_free.TryPop(out PendingFlush? call))
                call = new PendingFlush(this);
            task = call.Begin(goal, offset);
            _pending.Add(call);
            // Under the lock, so that the call cannot end before its registration is known, unless its token is already
            // cancelled.
            call.Register(cancellationToken);
        }

        // A flush that confirmed the goal before the call was in the list did not see it, and the next progress may be far off.
        Interlocked.MemoryBarrier(); // P18 full: in the list before the look; pairs with P18 full in Confirm.
        if (_store.ConfirmedOffset >= goal)
            EndConfirmed();
        Notice();
        return task;
    }

    private bool IsAnyPending
    {
        get
        {
            lock (_listLock)
                return _pending.Count > 0;
        }
    }

    /// <summary>
    /// Sleeps once while another thread of this process leads; true when this thread may have been called to lead.
    /// </summary>
    private bool Follow(long goal, in CallDeadline deadline)
    {
        long group = _group.Prepare(out uint word);
        bool isOver = _store.Wake.IsPoisoned || deadline.CancellationToken.IsCancellationRequested;
        if (isOver || _store.ConfirmedOffset >= goal || !IsLeadTaken || _group.IsServed(group))
            return false;
        _group.Sleep(group, word, deadline.Limit(WakeSignal.SleepMax));
        return !_group.IsServed(group);
    }

    /// <summary>
    /// Flushes for the asynchronous calls and ends those whose goal is durable. Only the queue's thread calls it. Returns after
    /// any progress: the nearest goal may be after an open claim, and a nearer one may have come meanwhile.
    /// </summary>
    private void ServePending()
    {
        try
        {
            if (!TryFindNearest(out long nearest))
                return;
            long confirmed = _store.ConfirmedOffset;
            if (confirmed < nearest)
                WaitFor(confirmed + 1, CallDeadline.Endless);
            EndConfirmed();
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            // A thread that led learns of the disk error itself; one that only waited learns that the queue is poisoned.
            End(long.MaxValue, 0, error is QueueDiskException && _store.Wake.IsPoisoned ? _store.Poisoned(error) : error);
        }
    }

    /// <summary>Ends all calls: those that the last flush covers succeed, the others fail.</summary>
    private void EndPending()
    {
        lock (_listLock)
            _isListClosed = true;
        EndConfirmed();
        End(long.MaxValue, 0, new ObjectDisposedException(PublicNames.Queue,
            "The queue was disposed before the flush. The messages stay appended; their durability is not known."));
    }

    /// <summary>Finds the smallest goal. A goal that its caller chose is moved back to what is published by now.</summary>
    private bool TryFindNearest(out long nearest)
    {
        nearest = long.MaxValue;
        long published = -1;
        lock (_listLock)
        {
            foreach (PendingFlush call in _pending)
            {
                if (call.IsGoalOpen)
                    call.LimitGoal(published = published < 0 ? FindPublishedEnd() : published);
                nearest = Math.Min(nearest, call.Goal);
            }

            return _pending.Count > 0;
        }
    }

    private void EndConfirmed()
    {
        long confirmed = _store.ConfirmedOffset;
        End(confirmed, confirmed, null);
    }

    /// <summary>Ends the calls whose goal is reached.</summary>
    private void End(long reached, long confirmed, Exception? error)
    {
        lock (_ending)
        {
            lock (_listLock)
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

    /// <summary>
    /// An asynchronous call that waits for a flush. The engine keeps the free ones, so an asynchronous append allocates nothing.
    /// </summary>
    private sealed class PendingFlush(FlushEngine engine) : ReusedCompletion<long>
    {
        private CancellationTokenRegistration _registration;
        private long? _offset;

        /// <summary>The offset that has to be confirmed.</summary>
        public long Goal { get; private set; }

        /// <summary>
        /// True if the caller chose the goal, which may be beyond what is published: the published end is enough then.
        /// </summary>
        public bool IsGoalOpen { get; private set; }

        /// <summary>Begins a new use.</summary>
        public ValueTask<long> Begin(long goal, long? offset)
        {
            (Goal, _offset, IsGoalOpen) = (goal, offset, offset is null);
            return Task;
        }

        public void Register(CancellationToken cancellationToken) => _registration =
            cancellationToken.UnsafeRegister(static (state, token) => ((PendingFlush)state!).Cancel(token), this);

        /// <summary>Moves the goal back to what is published now, if it is beyond.</summary>
        public void LimitGoal(long published) => (Goal, IsGoalOpen) = (Math.Min(Goal, published), false);

        /// <summary>Ends the call. The caller has taken it out of the list, so it ends once.</summary>
        public void End(long confirmed, Exception? error)
        {
            // Waits for a cancellation callback under way, which finds that the call is no longer in the list.
            _registration.Dispose();
            _registration = default;
            CompleteOnPool(_offset ?? confirmed, error);
        }

        protected override void Free()
        {
            lock (engine._listLock)
            {
                if (engine._free.Count < FreeMax)
                    engine._free.Push(this);
            }
        }

        private void Cancel(CancellationToken cancellationToken)
        {
            lock (engine._listLock)
            {
                // The message reads a mapped word: after the lock the queue may have ended.
                if (engine._pending.Remove(this))
                    CompleteOnPool(0, engine.Cancelled(Goal, cancellationToken));
            }
        }
    }
}

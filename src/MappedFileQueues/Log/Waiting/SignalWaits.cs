using System.Diagnostics;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Waiting;

/// <summary>
/// What one queue waits for on one signal without blocking a thread, as a <see cref="WaitThread"/> sees it. The thread makes the
/// waiter's steps of <see cref="WakeSignal"/> for all its queues together, in rounds.
/// <para>A signal whose sequence has not moved keeps its flag, and what was looked at then needs no second look. So in a round
/// the thread looks only at the signals that moved, that have a new wait, or whose time has come.</para>
/// </summary>
internal abstract unsafe class SignalWaits(OperatingSystemServices os, WakeSignal signal)
{
    private WaitThread? _thread;
    private ulong _sequence;
    private long _lookAt;
    private bool _isPrepared;
    private bool _isLooking;

    /// <summary>
    /// Guards the waits and everything mapped: whoever unmaps first takes the waits away under it. The thread takes it for each
    /// look.
    /// </summary>
    protected Lock Waits { get; } = new();

    public OperatingSystemServices Os => os;

    public WakeSignal Signal => signal;

    /// <summary>Under the lock: a wait was added. Starts the thread where none runs.</summary>
    /// <exception cref="MappedFileQueueException">The system gives no thread; nothing has changed.</exception>
    protected void BeginWaiting()
    {
        // First: if it throws, the next call tries again.
        _thread ??= WaitThreads.Add(this);
        _isPrepared = false;
    }

    /// <summary>Makes the thread look at a wait that was added. Under the lock, because it may store into the mapping.</summary>
    protected void NoticeWait() => _thread!.Interrupt(this);

    /// <summary>Under the lock: there is nothing to wait for any more, and the words may be unmapped after this.</summary>
    protected void EndWaiting()
    {
        if (_thread is null)
            return;
        _thread.Remove(this);
        _thread = null;
    }

    /// <summary>
    /// Under the lock: looks at every wait and ends those that are over. Null when none is left, else how long the thread may
    /// sleep if nothing moves.
    /// </summary>
    /// <param name="sleepMax">How long at most.</param>
    protected abstract TimeSpan? LookAtAll(TimeSpan sleepMax);

    /// <summary>
    /// The thread's steps 1 and 2: raises the flag where a look is due. Returns true if producers need a barrier before it.
    /// </summary>
    /// <param name="now">The time of the round.</param>
    public bool BeginLook(long now)
    {
        lock (Waits)
        {
            // P10 acquire: a waker moved it; pairs with P10 full in WakeSignal.Wake.
            _isLooking = _thread is not null
                && (!_isPrepared || now >= _lookAt || SharedWord.ReadAcquire(signal.SequenceWord) != _sequence);
            return _isLooking && signal.Raise(out _sequence);
        }
    }

    /// <summary>The thread's steps 3 and 4: looks, after the barrier.</summary>
    /// <param name="isOrdered">False where no barrier reached the producers.</param>
    /// <param name="wait">What to sleep on.</param>
    /// <param name="lookAt">When to look again though nothing moves.</param>
    /// <returns>False when nothing waits any more.</returns>
    public bool EndLook(bool isOrdered, out WordWait wait, out long lookAt)
    {
        lock (Waits)
        {
            if (_isLooking && _thread is not null)
            {
                if (LookAtAll(signal.SleepLimit(isOrdered)) is { } sleep)
                {
                    _isPrepared = true;
                    _lookAt = Stopwatch.GetTimestamp() + (long)(sleep.TotalSeconds * Stopwatch.Frequency);
                }
                else
                {
                    _thread.Forget(this);
                    _thread = null;
                }
            }

            wait = new WordWait((uint*)signal.SequenceWord, (uint)_sequence);
            lookAt = _lookAt;
            return _thread is not null;
        }
    }
}

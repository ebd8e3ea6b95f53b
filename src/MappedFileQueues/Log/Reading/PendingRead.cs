using System.Diagnostics;
using System.Threading.Tasks.Sources;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// A consumer's asynchronous wait. A consumer has one at a time, so the object serves its next wait too, once the result was
/// fetched: waiting allocates nothing. It queues itself to the thread pool when it is over, so continuations never run on the
/// waiting thread.
/// <para>Everything but the result happens under the lock of its <see cref="AsyncWaiter"/>.</para>
/// </summary>
internal sealed class PendingRead(AsyncWaiter waiter, LogReader reader) : IValueTaskSource<bool>, IThreadPoolWorkItem
{
    private ManualResetValueTaskSourceCore<bool> _core;
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;
    private bool _found;
    private Exception? _error;
    private bool _isPending;
    private volatile bool _isFree = true;

    public LogReader Reader => reader;

    /// <summary>True once the last result was fetched: a wait whose result nobody has fetched keeps its object.</summary>
    public bool IsFree => _isFree;

    /// <summary>When it ends without a message, by Stopwatch; <see cref="long.MaxValue"/>: never.</summary>
    public long EndsAt { get; private set; }

    /// <summary>The last look met a claim, whose owner may be dead and then wakes nobody.</summary>
    public bool SawHole { get; set; }

    public ValueTask<bool> Task => new(this, _core.Version);

    /// <summary>Begins a new wait. A token that is cancelled already ends it at once.</summary>
    public void Begin(TimeSpan timeout, CancellationToken cancellationToken)
    {
        Debug.Assert(_isFree && !_isPending, "The result of the last wait was fetched.");
        _isFree = false;
        _isPending = true;
        SawHole = false;
        EndsAt = timeout < TimeSpan.Zero
            ? long.MaxValue
            : Stopwatch.GetTimestamp() + (long)(timeout.TotalSeconds * Stopwatch.Frequency);
        reader.IsAwaited = true;
        _token = cancellationToken;
        if (cancellationToken.CanBeCanceled)
            _registration = cancellationToken.UnsafeRegister(
                static (state, token) => ((PendingRead)state!).Cancel(token), this);
    }

    /// <summary>Ends the wait. The consumer may call again.</summary>
    /// <param name="found">False: the time is up.</param>
    /// <param name="error">What the wait throws instead.</param>
    public void End(bool found, Exception? error = null)
    {
        _isPending = false;
        _found = found;
        _error = error;
        reader.IsAwaited = false;
        // A callback that is under way waits for the lock and finds that this wait is over.
        _registration.Unregister();
        _registration = default;
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    /// <summary>The result was asked for too early: the wait goes on, and its object must not be reused meanwhile.</summary>
    public static void ThrowIfPending(ValueTaskSourceStatus status)
    {
        if (status == ValueTaskSourceStatus.Pending)
            throw new InvalidOperationException("The wait has not ended. Await the call once, or use AsTask.");
    }

    /// <summary>A callback that comes late meets the next wait: that one is over too if it has the same token.</summary>
    private void Cancel(CancellationToken cancellationToken)
    {
        using (waiter.Enter())
        {
            if (!_isPending || _token != cancellationToken)
                return;
            waiter.Remove(this);
            End(false, new OperationCanceledException(cancellationToken));
        }
    }

    void IThreadPoolWorkItem.Execute()
    {
        if (_error is { } error)
            _core.SetException(error);
        else
            _core.SetResult(_found);
    }

    bool IValueTaskSource<bool>.GetResult(short token)
    {
        ThrowIfPending(_core.GetStatus(token));
        try
        {
            return _core.GetResult(token);
        }
        finally
        {
            _core.Reset();
            _error = null;
            _isFree = true;
        }
    }

    ValueTaskSourceStatus IValueTaskSource<bool>.GetStatus(short token) => _core.GetStatus(token);

    void IValueTaskSource<bool>.OnCompleted(
        Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _core.OnCompleted(continuation, state, token, flags);
}

using System.Runtime.CompilerServices;
using System.Threading.Tasks.Sources;

namespace MappedFileQueues.Log.Reading;

/// <summary>Takes what a consumer waits for; false when it is not there yet.</summary>
internal delegate bool TryTake<TResult>(out TResult result);

/// <summary>
/// An asynchronous call of a consumer that waits, looks, and waits again until there is something to take. The object belongs to
/// the consumer and serves its next call too. An async method would need an object for each call that is pending: the pools of
/// the runtime keep one a thread and one a processor, and of 1,000 pending calls nearly all allocated.
/// </summary>
internal sealed class ReusedWait<TResult> : IValueTaskSource<TResult>
{
    private readonly LogConsumer _consumer;
    private readonly TryTake<TResult> _tryTake;
    private readonly Action _continue;
    private ManualResetValueTaskSourceCore<TResult> _core;
    private ValueTaskAwaiter<bool> _inner;
    private CancellationToken _token;
    private int _isTaken;

    /// <param name="consumer">What waits.</param>
    /// <param name="tryTake">Takes what it waits for.</param>
    public ReusedWait(LogConsumer consumer, TryTake<TResult> tryTake)
    {
        (_consumer, _tryTake) = (consumer, tryTake);
        _continue = Continue;
    }

    /// <summary>
    /// Begins a call. The object in <paramref name="wait"/> is replaced while the result of its last call was not fetched.
    /// </summary>
    public static ValueTask<TResult> Start(ref ReusedWait<TResult> wait, CancellationToken cancellationToken)
    {
        ReusedWait<TResult> own = wait;
        // P41 full: of two threads that call at once, an error, each gets an object; pairs with P41 release in Free.
        if (Interlocked.Exchange(ref own._isTaken, 1) != 0)
            wait = own = new ReusedWait<TResult>(own._consumer, own._tryTake) { _isTaken = 1 };
        return own.Begin(cancellationToken);
    }

    private ValueTask<TResult> Begin(CancellationToken cancellationToken)
    {
        _token = cancellationToken;
        var task = new ValueTask<TResult>(this, _core.Version);
        Go();
        return task;
    }

    private void Go()
    {
        TResult result;
        try
        {
            while (true)
            {
                _token.ThrowIfCancellationRequested();
                if (_tryTake(out result))
                    break;
                ValueTaskAwaiter<bool> inner = _consumer.WaitAsync(Timeout.InfiniteTimeSpan, _token).GetAwaiter();
                if (!inner.IsCompleted)
                {
                    _inner = inner;
                    inner.UnsafeOnCompleted(_continue);
                    return;
                }

                _ = inner.GetResult();
            }
        }
        catch (Exception error)
        {
            _core.SetException(error);
            return;
        }

        _core.SetResult(result);
    }

    private void Continue()
    {
        ValueTaskAwaiter<bool> inner = _inner;
        _inner = default;
        try
        {
            _ = inner.GetResult();
        }
        catch (Exception error)
        {
            _core.SetException(error);
            return;
        }

        Go();
    }

    TResult IValueTaskSource<TResult>.GetResult(short token)
    {
        PendingRead.ThrowIfPending(_core.GetStatus(token));
        try
        {
            return _core.GetResult(token);
        }
        finally
        {
            Free();
        }
    }

    private void Free()
    {
        _core.Reset();
        _token = default;
        Volatile.Write(ref _isTaken, 0); // P41 release: after the reset; pairs with P41 full in Start.
    }

    ValueTaskSourceStatus IValueTaskSource<TResult>.GetStatus(short token) => _core.GetStatus(token);

    void IValueTaskSource<TResult>.OnCompleted(
        Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _core.OnCompleted(continuation, state, token, flags);
}

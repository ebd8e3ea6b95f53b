using System.Runtime.CompilerServices;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>Takes what a consumer waits for; false when it is not there yet.</summary>
internal delegate bool TryTake<TResult>(out TResult result);

/// <summary>
/// An asynchronous call of a consumer that waits, looks, and waits again until there is something to take. The object belongs to
/// the consumer and serves its next call too. An async method would need an object for each call that is pending: the pools of
/// the runtime keep one a thread and one a processor, and of 1,000 pending calls nearly all allocated.
/// </summary>
internal sealed class ReusedWait<TResult> : ReusedCompletion<TResult>
{
    private readonly LogConsumer _consumer;
    private readonly TryTake<TResult> _tryTake;
    private readonly Action _continue;
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
        ValueTask<TResult> task = Task;
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
            Complete(error);
            return;
        }

        Complete(result);
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
            Complete(error);
            return;
        }

        Go();
    }

    protected override void Free()
    {
        _token = default;
        Volatile.Write(ref _isTaken, 0); // P41 release: after the reset; pairs with P41 full in Start.
    }
}

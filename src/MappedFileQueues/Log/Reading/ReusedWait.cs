using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>Takes what a consumer waits for; false when it is not there yet.</summary>
internal delegate bool TryTake<TResult>(out TResult result);

/// <summary>Something that reads, and whose calls can wait without a thread.</summary>
internal interface IWaitingConsumer
{
    /// <summary>Begins a wait, after which the call takes something.</summary>
    void BeginWait(IReadWait call, TimeSpan timeout, CancellationToken cancellationToken);
}

/// <summary>
/// An asynchronous call of a consumer that waits, looks, and waits again until there is something to take. The object belongs to
/// the consumer and serves its next call too. An async method would need an object for each call that is pending: the pools of
/// the runtime keep one a thread and one a processor, and of 1,000 pending calls nearly all allocated.
/// </summary>
/// <param name="consumer">What waits.</param>
/// <param name="tryTake">Takes what it waits for, after each wait.</param>
internal sealed class ReusedWait<TResult>(IWaitingConsumer consumer, TryTake<TResult> tryTake)
    : ReusedCompletion<TResult>, IReadWait, IThreadPoolWorkItem
{
    private TimeSpan _timeout;
    private CancellationToken _token;
    private bool _found;
    private Exception? _error;
    private int _isTaken;

    /// <summary>
    /// Begins a call, for a caller that has looked. The object in <paramref name="wait"/> is replaced while the result of its
    /// last call was not fetched.
    /// </summary>
    /// <param name="wait">The consumer's object.</param>
    /// <param name="timeout">After this time the result is the default; negative: without end.</param>
    /// <param name="cancellationToken">Ends the call.</param>
    public static ValueTask<TResult> Start(
        ref ReusedWait<TResult> wait, TimeSpan timeout, CancellationToken cancellationToken)
    {
        ReusedWait<TResult> own = wait;
        // P41 full: of two threads that call at once, an error, each gets an object; pairs with P41 release in Free.
        if (Interlocked.Exchange(ref own._isTaken, 1) != 0)
            wait = own = own.Another();
        return own.Begin(timeout, cancellationToken);
    }

    /// <inheritdoc/>
    void IReadWait.EndOnPool(bool found, Exception? error)
    {
        (_found, _error) = (found, error);
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    void IThreadPoolWorkItem.Execute()
    {
        if (_error is not null)
        {
            Complete(_error);
            return;
        }

        TResult result = default!;
        try
        {
            _token.ThrowIfCancellationRequested();
            if (_found && !tryTake(out result))
            {
                consumer.BeginWait(this, _timeout, _token);
                return;
            }
        }
        catch (Exception error)
        {
            Complete(error);
            return;
        }

        Complete(result);
    }

    protected override void Free()
    {
        (_token, _error) = (default, null);
        Volatile.Write(ref _isTaken, 0); // P41 release: after the reset; pairs with P41 full in Start.
    }

    private ReusedWait<TResult> Another() => new(consumer, tryTake) { _isTaken = 1 };

    private ValueTask<TResult> Begin(TimeSpan timeout, CancellationToken cancellationToken)
    {
        (_timeout, _token) = (timeout, cancellationToken);
        ValueTask<TResult> task = Task;
        try
        {
            cancellationToken.ThrowIfCancellationRequested();
            consumer.BeginWait(this, timeout, cancellationToken);
        }
        catch (Exception error)
        {
            Complete(error);
        }

        return task;
    }
}

using System.Threading.Tasks.Sources;

namespace MappedFileQueues.Threads;

/// <summary>
/// The end of an asynchronous call, in an object that serves the next call too once the result was fetched: a call allocates
/// nothing. Asked for its result too early it throws and continues, because it must not be reused meanwhile.
/// </summary>
internal abstract class ReusedCompletion<T> : IValueTaskSource<T>, IThreadPoolWorkItem
{
    private ManualResetValueTaskSourceCore<T> _core;
    private T? _result;
    private Exception? _error;

    public ValueTask<T> Task => new(this, _core.Version);

    /// <summary>Ends the call on the thread pool, so continuations never run on the thread that ends it.</summary>
    protected void CompleteOnPool(T result, Exception? error)
    {
        (_result, _error) = (result, error);
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    /// <summary>Ends the call, and runs its continuation.</summary>
    protected void Complete(T result) => _core.SetResult(result);

    /// <inheritdoc cref="Complete(T)"/>
    protected void Complete(Exception error) => _core.SetException(error);

    /// <summary>The result was fetched: the next call may begin.</summary>
    protected abstract void Free();

    void IThreadPoolWorkItem.Execute()
    {
        if (_error is { } error)
            _core.SetException(error);
        else
            _core.SetResult(_result!);
    }

    T IValueTaskSource<T>.GetResult(short token)
    {
        if (_core.GetStatus(token) == ValueTaskSourceStatus.Pending)
            throw new InvalidOperationException("The call has not ended. Await it once, or use AsTask.");
        try
        {
            return _core.GetResult(token);
        }
        finally
        {
            _core.Reset();
            (_result, _error) = (default, null);
            Free();
        }
    }

    ValueTaskSourceStatus IValueTaskSource<T>.GetStatus(short token) => _core.GetStatus(token);

    void IValueTaskSource<T>.OnCompleted(
        Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _core.OnCompleted(continuation, state, token, flags);
}

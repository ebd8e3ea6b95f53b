using System.Diagnostics;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// A consumer's asynchronous wait. A consumer has one at a time, and the object serves its next wait too.
/// <para>Everything but the result happens under the lock of its <see cref="AsyncWaiter"/>.</para>
/// </summary>
internal sealed class PendingRead(AsyncWaiter waiter, LogReader reader) : ReusedCompletion<bool>
{
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;
    private bool _isPending;
    private volatile bool _isFree = true;

    public LogReader Reader => reader;

    /// <summary>True once the last result was fetched: a wait whose result nobody has fetched keeps its object.</summary>
    public bool IsFree => _isFree;

    /// <summary>When it ends without a message, by Stopwatch; <see cref="long.MaxValue"/>: never.</summary>
    public long EndsAt { get; private set; }

    /// <summary>The last look met a claim, whose owner may be dead and then wakes nobody.</summary>
    public bool SawHole { get; set; }

    /// <summary>Begins a new wait. A token that is cancelled already ends it at once.</summary>
    public void Begin(TimeSpan timeout, CancellationToken cancellationToken)
    {
        Debug.Assert(_isFree && !_isPending, "The result of the last wait was fetched.");
        _isFree = false;
        _isPending = true;
        SawHole = false;
        long now = Stopwatch.GetTimestamp();
        var length = (long)(timeout.TotalSeconds * Stopwatch.Frequency);
        EndsAt = timeout < TimeSpan.Zero || length > long.MaxValue - now ? long.MaxValue : now + length;
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
        reader.IsAwaited = false;
        // A callback that is under way waits for the lock and finds that this wait is over.
        _registration.Unregister();
        _registration = default;
        CompleteOnPool(found, error);
    }

    protected override void Free() => _isFree = true;

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
}

using System.Diagnostics;

namespace MappedFileQueues.Log.Reading;

/// <summary>A call that waits.</summary>
internal interface IReadWait
{
    /// <summary>The wait is over: the call continues on the thread pool.</summary>
    /// <param name="found">False: the time is up.</param>
    /// <param name="error">What the call throws instead.</param>
    void EndOnPool(bool found, Exception? error);
}

/// <summary>
/// A consumer's asynchronous wait. A consumer has one at a time, and the object serves its next wait too.
/// <para>Everything happens under the lock of its <see cref="AsyncWaiter"/>.</para>
/// </summary>
/// <param name="waiter">Looks for it.</param>
/// <param name="reader">What waits.</param>
/// <param name="name">Who reads, for users.</param>
internal class PendingRead(AsyncWaiter waiter, LogReader reader, string name)
{
    private IReadWait? _call;
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;

    public LogReader Reader => reader;

    public string Name => name;

    /// <summary>When it ends without a message, by Stopwatch; <see cref="long.MaxValue"/>: never.</summary>
    public long EndsAt { get; private set; }

    /// <summary>The last look met a claim, whose owner may be dead and then wakes nobody.</summary>
    public bool SawClaim { get; protected set; }

    /// <summary>When it wants a look although nothing moves, by Stopwatch; <see cref="long.MaxValue"/>: never.</summary>
    public virtual long LooksAt => long.MaxValue;

    /// <summary>Whether there is something to act on. Notes a claim that is in the way.</summary>
    public virtual bool IsAnythingThere()
    {
        SawClaim = false;
        if (!reader.HasSomething())
            return false;
        SawClaim = !reader.TryRepairClaim();
        return !SawClaim;
    }

    /// <summary>
    /// Begins a new wait, in a call of the reader, which ends here: the wait may be over before its caller returns, and then
    /// another thread reads. A token that is cancelled already ends it at once.
    /// </summary>
    public void Begin(IReadWait call, TimeSpan timeout, CancellationToken cancellationToken)
    {
        Debug.Assert(_call is null, "The last wait has ended.");
        _call = call;
        SawClaim = false;
        long now = Stopwatch.GetTimestamp();
        var length = (long)(timeout.TotalSeconds * Stopwatch.Frequency);
        EndsAt = timeout < TimeSpan.Zero || length > long.MaxValue - now ? long.MaxValue : now + length;
        reader.IsAwaited = true;
        reader.EndCall();
        _token = cancellationToken;
        _registration = cancellationToken.UnsafeRegister(static (state, token) => ((PendingRead)state!).Cancel(token), this);
    }

    /// <summary>Ends the wait. The consumer may call again.</summary>
    /// <inheritdoc cref="IReadWait.EndOnPool"/>
    public void End(bool found, Exception? error = null)
    {
        IReadWait call = _call!;
        _call = null;
        reader.IsAwaited = false;
        // A callback that is under way waits for the lock and finds that this wait is over.
        _registration.Unregister();
        _registration = default;
        call.EndOnPool(found, error);
    }

    /// <summary>A callback that comes late meets the next wait: that one is over too if it has the same token.</summary>
    private void Cancel(CancellationToken cancellationToken)
    {
        using (waiter.Enter())
        {
            if (_call is null || _token != cancellationToken)
                return;
            waiter.Remove(this);
            End(false, new OperationCanceledException(cancellationToken));
        }
    }
}

using System.Diagnostics;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// The asynchronous waits of a queue's consumers for one signal. A thread of the process (<see cref="WaitThread"/>) looks at them
/// all, and reads through their readers meanwhile.
/// </summary>
internal sealed class AsyncWaiter(LogStore store, WakeSignal signal) : SignalWaits(store.Os, signal), IDisposable
{
    /// <summary>The longest sleep while a claim is in the way whose owner may be dead.</summary>
    private static readonly TimeSpan ClaimSleep = TimeSpan.FromMilliseconds(1);

    private readonly List<PendingRead> _pending = [];
    private long _looked = Stopwatch.GetTimestamp();
    private bool _stopping;

    /// <summary>
    /// Begins a wait until the reader has something to act on, or until the time is up. One call at a time per reader: it is in
    /// a call while the wait begins.
    /// </summary>
    /// <param name="wait">The object of the reader's waits.</param>
    /// <param name="call">What continues afterwards.</param>
    /// <param name="timeout">How long; negative: without end.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public void Begin(PendingRead wait, IReadWait call, TimeSpan timeout, CancellationToken cancellationToken)
    {
        LogReader reader = wait.Reader;
        reader.BeginCall();
        try
        {
            lock (Waits)
            {
                // Forget comes once, right after the reader was closed: a wait added later would never end.
                reader.ThrowIfBarred(wait.Name);
                PublicNames.ThrowIfDisposed(_stopping, wait.Name);
                // If the system gives no thread, nothing has changed, and the next call tries again.
                BeginWaiting();
                _pending.Add(wait);
                wait.Begin(call, timeout, cancellationToken);
                ProtocolSteps.Reach(ProtocolStep.AsyncWaitAdded);
                // Under the lock: a Dispose that unmaps the words takes it first. Outside the lock this could store into an
                // unmapped page.
                NoticeWait();
            }
        }
        catch
        {
            reader.EndCall();
            throw;
        }
    }

    /// <summary>The error for a second call while one is waiting.</summary>
    public static InvalidOperationException AlreadyWaiting() =>
        new("An asynchronous call is already waiting. Only one caller at a time may use a consumer or a member of a group.");

    /// <summary>
    /// Ends a reader's wait with <see cref="ObjectDisposedException"/>; afterwards no thread touches the reader.
    /// </summary>
    public void Forget(LogReader reader)
    {
        lock (Waits)
        {
            int place = _pending.FindIndex(wait => wait.Reader == reader);
            if (place < 0)
                return;
            PendingRead wait = _pending[place];
            _pending.RemoveAt(place);
            wait.End(false, new ObjectDisposedException(wait.Name));
        }
    }

    /// <summary>Under the lock: a wait that is over leaves the list.</summary>
    public void Remove(PendingRead wait) => _pending.Remove(wait);

    /// <summary>Takes the lock that all waits are under.</summary>
    public Lock.Scope Enter() => Waits.EnterScope();

    public void Dispose()
    {
        lock (Waits)
        {
            _stopping = true;
            FailAll(() => new ObjectDisposedException(PublicNames.Queue));
            EndWaiting();
        }
    }

    /// <inheritdoc/>
    protected override TimeSpan? LookAtAll(TimeSpan sleepMax)
    {
        EndAllIfReplaced();
        bool isClaim = false;
        long endsAt = long.MaxValue;
        for (int i = _pending.Count - 1; i >= 0; i--)
        {
            PendingRead wait = _pending[i];
            if (TryEnd(wait))
            {
                _pending.RemoveAt(i);
                continue;
            }

            isClaim |= wait.SawClaim;
            endsAt = Math.Min(endsAt, Math.Min(wait.EndsAt, wait.LooksAt));
        }

        if (_pending.Count == 0)
            return null;
        TimeSpan sleep = isClaim ? ClaimSleep : sleepMax;
        return endsAt == long.MaxValue
            ? sleep
            : TimeSpan.FromTicks(Math.Min(sleep.Ticks, Stopwatch.GetElapsedTime(Stopwatch.GetTimestamp(), endsAt).Ticks));
    }

    private bool TryEnd(PendingRead wait)
    {
        LogReader reader = wait.Reader;
        try
        {
            if (wait.IsAnythingThere())
            {
                wait.End(true);
                return true;
            }

            // The look checks this only when it enters a segment, and a wait may stay in one forever.
            if (!wait.SawClaim)
                store.ThrowIfReadingEnded(reader.IsClosed, wait.Name);

            if (wait.EndsAt == long.MaxValue || Stopwatch.GetTimestamp() < wait.EndsAt)
                return false;
            wait.End(false);
            return true;
        }
        catch (Exception error)
        {
            // Damage, poison, a deleted store: the consumer's own call should throw it.
            Debug.Assert(error is MappedFileQueueException or ObjectDisposedException or InvalidOperationException);
            wait.End(false, error);
            return true;
        }
    }

    /// <summary>Now and then: is the store still the one that was opened?</summary>
    private void EndAllIfReplaced()
    {
        try
        {
            store.ThrowIfReplaced(ref _looked, Stopwatch.GetTimestamp());
        }
        catch (MappedFileQueueException error)
        {
            FailAll(() => error);
        }
    }

    private void FailAll(Func<Exception> error)
    {
        foreach (PendingRead wait in _pending)
            wait.End(false, error());
        _pending.Clear();
    }
}

using System.Diagnostics;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// Asynchronous waiting: one thread per queue, started with the first wait, for any number of consumers. It performs the
/// waiter's steps of <see cref="WakeSignal"/> for all of them together. Continuations never run on it.
/// </summary>
internal sealed class AsyncWaiter(LogStore store, WakeSignal signal) : IDisposable
{
    private readonly Lock _lock = new();
    private readonly List<PendingRead> _pending = [];
    private Thread? _thread;
    private bool _stopping;

    /// <summary>Completes when the reader has something to act on. One call at a time per reader.</summary>
    public Task WaitAsync(LogReader reader, CancellationToken cancellationToken)
    {
        var wait = new PendingRead(this, reader);
        lock (_lock)
        {
            // Forget comes once, right after the reader was closed: a wait added later would never end.
            if (_stopping || reader.IsClosed)
                throw new ObjectDisposedException(PublicNames.Consumer);
            if (_pending.Exists(other => other.Reader == reader))
                throw AlreadyWaiting();
            // First, under the lock that the thread takes before it looks at anything: if the system gives no thread, nothing
            // has changed, and the next call tries again.
            _thread ??= BackgroundThread.Start(Run, "async waits");
            reader.IsAwaited = true;
            _pending.Add(wait);

            ProtocolSteps.Reach(ProtocolStep.AsyncWaitAdded);
            // Under the lock: a Dispose that unmaps the words takes it first. Outside the lock this could store into an unmapped
            // page.
            signal.Interrupt();
        }

        if (cancellationToken.CanBeCanceled)
        {
            wait.Registration = cancellationToken.UnsafeRegister(
                static (state, cancellationToken) => ((PendingRead)state!).Cancel(cancellationToken), wait);
            // The wait may have ended before the registration existed.
            if (wait.Task.IsCompleted)
                wait.Registration.Unregister();
        }

        return wait.Task;
    }

    /// <summary>The error for a second call while one is waiting.</summary>
    public static InvalidOperationException AlreadyWaiting() =>
        new("An asynchronous call of this consumer is already waiting. Only one caller at a time may use a consumer.");

    /// <summary>
    /// Ends a reader's wait with <see cref="ObjectDisposedException"/>; afterwards this thread does not touch the reader.
    /// </summary>
    public void Forget(LogReader reader)
    {
        lock (_lock)
            FailAll(wait => wait.Reader == reader, new ObjectDisposedException(PublicNames.Consumer));
    }

    public void Dispose()
    {
        Thread? thread;
        lock (_lock)
        {
            _stopping = true;
            thread = _thread;
            FailAll(static _ => true, new ObjectDisposedException(PublicNames.Queue));
        }

        if (thread is null)
            return;
        signal.Interrupt();
        while (!thread.Join(TimeSpan.FromMilliseconds(20)))
            signal.Interrupt();
    }

    private void Run()
    {
        long looked = Stopwatch.GetTimestamp();
        while (true)
        {
            TimeSpan sleep = signal.Prepare(out ulong sequence);
            lock (_lock)
            {
                if (_stopping)
                    return;
                _pending.RemoveAll(wait => wait.TryComplete(store));
                if (_pending.Exists(wait => wait.SawHole))
                    sleep = TimeSpan.FromMilliseconds(1);
                else if (sleep == SleeperWatch.Interval && _pending.TrueForAll(wait => store.IsQuiet(wait.Reader.Offset)))
                    sleep = LogConsumer.LookAfterStore;
                if (_pending.Count == 0)
                {
                    // No call waits: the next wait starts a new thread, so that an idle queue costs nothing.
                    _thread = null;
                    return;
                }
            }

            long slept = Stopwatch.GetTimestamp();
            signal.Sleep(sequence, sleep);
            // The sleep timed out: time to check whether the store is still the one that was opened.
            if (Stopwatch.GetElapsedTime(slept) < sleep || Stopwatch.GetElapsedTime(looked) < LogConsumer.LookAfterStore)
                continue;
            EndWaitsIfReplaced();
            looked = Stopwatch.GetTimestamp();
        }
    }

    private void EndWaitsIfReplaced()
    {
        try
        {
            store.ThrowIfReplaced();
        }
        catch (MappedFileQueueException error)
        {
            lock (_lock)
                FailAll(static _ => true, error);
        }
    }

    /// <summary>
    /// Call it under the lock, like every end of a wait: outside it a cancellation could end the wait first, and this call would
    /// lift the bar of the consumer's next wait.
    /// </summary>
    private void FailAll(Predicate<PendingRead> which, Exception error)
    {
        foreach (PendingRead wait in _pending.FindAll(which))
            wait.Fail(error);
        _pending.RemoveAll(which);
    }

    private sealed class PendingRead(AsyncWaiter waiter, LogReader reader)
    {
        private readonly TaskCompletionSource _completion = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public LogReader Reader => reader;

        public Task Task => _completion.Task;

        public CancellationTokenRegistration Registration { get; set; }

        public bool SawHole { get; private set; }

        /// <summary>
        /// Takes the lock, so that the waiting thread has left the reader before the cancelled caller uses it again.
        /// </summary>
        public void Cancel(CancellationToken cancellationToken)
        {
            lock (waiter._lock)
            {
                waiter._pending.Remove(this);
                if (!Task.IsCompleted)
                    reader.IsAwaited = false;
                _completion.TrySetCanceled(cancellationToken);
            }
        }

        /// <summary>Call it under the lock. The consumer may call again and meet the error itself.</summary>
        public void Fail(Exception error)
        {
            reader.IsAwaited = false;
            _completion.TrySetException(error);
            Registration.Unregister();
        }

        /// <summary>True when this wait is over.</summary>
        public bool TryComplete(LogStore store)
        {
            if (Task.IsCompleted)
                return true;
            try
            {
                if (!reader.HasSomething())
                {
                    // HasSomething checks this only when it enters a segment, and a wait may stay in one forever.
                    store.ThrowIfReadingEnded(reader.IsClosed);
                    return false;
                }

                SawHole = !reader.TryRepairHole();
                if (SawHole)
                    return false;
                reader.IsAwaited = false;
                _completion.TrySetResult();
            }
            catch (Exception error)
            {
                reader.IsAwaited = false;
                // Damage, poison, a deleted store: the consumer's own call should throw it.
                Debug.Assert(error is MappedFileQueueException or ObjectDisposedException or InvalidOperationException);
                _completion.TrySetException(error);
            }

            Registration.Unregister();
            return true;
        }
    }
}

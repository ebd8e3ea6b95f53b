using System.Diagnostics;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Asynchronous appends that wait for consumers: one thread per queue, started with the first of them, for any number. It appends
/// them in the order of the calls, and performs the waiter's steps of <see cref="Waiting.WakeSignal"/> for the first.
/// Continuations never run on it.
/// </summary>
internal sealed class PendingAppends(LogStore store, ConsumerLimit limit) : IDisposable
{
    /// <summary>The caller of an Exclusive producer is in another call, or a claim is in the way.</summary>
    private static readonly TimeSpan ShortSleep = TimeSpan.FromMilliseconds(1);

    private readonly Lock _lock = new();
    private readonly LinkedList<PendingAppend> _pending = [];
    private PendingAppend? _current;
    private Thread? _thread;
    private bool _stopping;

    /// <summary>While any call waits, later ones wait after it.</summary>
    public bool IsAnyThere
    {
        get
        {
            lock (_lock)
                return _current is not null || _pending.Count > 0;
        }
    }

    /// <summary>Appends messages when there is room; the result is the first one's offset.</summary>
    public Task<long> Add(LogAppender appender, WaitingMessages messages, CancellationToken cancellationToken)
    {
        var append = new PendingAppend(this, appender, messages);
        lock (_lock)
        {
            // Forget comes once, after the producer was closed: a call added later would wait after those of other producers.
            PublicNames.ThrowIfDisposed(_stopping || appender.IsDisposed, PublicNames.Producer);
            _thread ??= BackgroundThread.Start(Run, "async appends");
            _pending.AddLast(append);
        }

        if (cancellationToken.CanBeCanceled)
        {
            append.Registration = cancellationToken.UnsafeRegister(
                static (state, token) => ((PendingAppend)state!).Cancel(token), append);
            // The call may have ended before the registration existed.
            if (append.Task.IsCompleted)
                append.Registration.Unregister();
        }

        return append.Task;
    }

    /// <summary>Ends the calls of a producer that was closed.</summary>
    public void Forget(LogAppender appender)
    {
        lock (_lock)
        {
            if (!_stopping)
                FailAll(append => append.Appender == appender, new ObjectDisposedException(PublicNames.Producer));
        }
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
        store.CapacityWake.Interrupt();
        while (!thread.Join(TimeSpan.FromMilliseconds(20)))
            store.CapacityWake.Interrupt();
    }

    private void Run()
    {
        int sleeps = 0;
        long looked = Stopwatch.GetTimestamp();
        while (true)
        {
            TimeSpan sleep = limit.Prepare(out ulong sequence, sleeps);
            if (!TryServe(out int served, out bool isShort))
                return;
            sleeps = served > 0 ? 0 : sleeps + 1;
            if (isShort && ShortSleep < sleep)
                sleep = ShortSleep;
            long slept = Stopwatch.GetTimestamp();
            store.CapacityWake.Sleep(sequence, sleep);
            if (Stopwatch.GetElapsedTime(slept) >= sleep)
                EndIfReplaced(ref looked);
        }
    }

    /// <summary>Appends as many as there is room for.</summary>
    /// <returns>False when no call waits: the next one starts a new thread, so that an idle queue costs nothing.</returns>
    private bool TryServe(out int served, out bool isShort)
    {
        served = 0;
        isShort = false;
        while (true)
        {
            PendingAppend append;
            lock (_lock)
            {
                if (_stopping || _pending.First is not { } first)
                {
                    _thread = null;
                    return false;
                }

                append = _current = first.Value;
                _pending.RemoveFirst();
            }

            // Outside the lock: it may take as long as a disk takes.
            bool isFree = append.TryAppend(out long offset, out Exception? error);
            lock (_lock)
            {
                _current = null;
                if (error is not null || offset >= 0)
                {
                    served++;
                    append.End(offset, error);
                    continue;
                }

                if (_stopping)
                    append.End(offset, new ObjectDisposedException(PublicNames.Queue));
                else if (append.CancelledBy is { } token)
                    append.EndCancelled(token);
                else
                    _pending.AddFirst(append);
                if (append.Task.IsCompleted)
                    continue;
                isShort = !isFree || limit.MeetsClaim;
                return true;
            }
        }
    }

    private void EndIfReplaced(ref long looked)
    {
        try
        {
            store.ThrowIfReplaced(ref looked, Stopwatch.GetTimestamp());
        }
        catch (MappedFileQueueException error)
        {
            lock (_lock)
                FailAll(static _ => true, error);
        }
    }

    private void Cancel(PendingAppend append, CancellationToken cancellationToken)
    {
        lock (_lock)
        {
            if (append == _current)
                append.CancelledBy = cancellationToken;
            if (!_pending.Remove(append))
                return;
            append.EndCancelled(cancellationToken);
            // Another call may be the first now, or none is left. Under the lock that the end of the queue takes.
            store.CapacityWake.Interrupt();
        }
    }

    /// <summary>Call it under the lock.</summary>
    private void FailAll(Predicate<PendingAppend> which, Exception error)
    {
        for (LinkedListNode<PendingAppend>? node = _pending.First, next; node is not null; node = next)
        {
            next = node.Next;
            if (!which(node.Value))
                continue;
            _pending.Remove(node);
            node.Value.End(LogAppender.Full, error);
        }

        store.CapacityWake.Interrupt();
    }

    private sealed class PendingAppend(PendingAppends owner, LogAppender appender, WaitingMessages messages)
    {
        private readonly TaskCompletionSource<long> _completion = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public LogAppender Appender => appender;

        public Task<long> Task => _completion.Task;

        public CancellationTokenRegistration Registration { get; set; }

        /// <summary>Cancelled during an attempt; the attempt decides.</summary>
        public CancellationToken? CancelledBy { get; set; }

        public void Cancel(CancellationToken cancellationToken) => owner.Cancel(this, cancellationToken);

        /// <summary>False when the caller's other call is in the way.</summary>
        public bool TryAppend(out long offset, out Exception? error)
        {
            error = null;
            offset = LogAppender.Full;
            try
            {
                return appender.TryAppendForWaiting(messages, out offset);
            }
            catch (Exception thrown)
            {
                Debug.Assert(thrown is MappedFileQueueException or InvalidOperationException or ArgumentOutOfRangeException);
                error = thrown;
                return true;
            }
        }

        public void End(long offset, Exception? error)
        {
            if (error is null)
                _completion.TrySetResult(offset);
            else
                _completion.TrySetException(error);
            Registration.Unregister();
        }

        public void EndCancelled(CancellationToken cancellationToken) => _completion.TrySetCanceled(cancellationToken);
    }
}

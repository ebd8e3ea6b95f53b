using MappedFileQueues.Threads;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// One sync serves all waiting threads. The first thread leads. The threads that arrive during its sync wait for the next sync,
/// which one of them leads. No thread waits for a timer.
/// </summary>
/// <param name="sync">Syncs what has been written. Returns the sequence up to which everything is on disk afterwards.</param>
internal sealed class GroupSync(Func<ulong> sync)
{
    private readonly object _gate = new();
    private readonly List<Waiter> _waiters = [];
    private ulong _durable;
    private bool _isLed;
    private bool _areWaitersServed;

    /// <summary>Returns when everything up to this sequence is on disk.</summary>
    public void WaitFor(ulong sequence)
    {
        lock (_gate)
        {
            while (_isLed && _durable < sequence)
                Monitor.Wait(_gate);
            if (_durable >= sequence)
                return;
            _isLed = true;
        }

        ulong reached = 0;
        try
        {
            reached = sync();
        }
        finally
        {
            using (new UninterruptedLock(_gate))
            {
                _durable = Math.Max(_durable, reached);
                _isLed = false;
                Monitor.PulseAll(_gate);
            }
        }
    }

    /// <summary>
    /// Completes when everything up to this sequence is on disk. One thread of the pool waits for all who wait in this way, so
    /// any number of them share a sync without a thread each.
    /// </summary>
    public Task WaitForAsync(ulong sequence)
    {
        var waiter = new Waiter(sequence);
        lock (_gate)
        {
            if (_durable >= sequence)
                return Task.CompletedTask;
            _waiters.Add(waiter);
            if (_areWaitersServed)
                return waiter.Task;
            _areWaitersServed = true;
        }

        ThreadPool.UnsafeQueueUserWorkItem(static self => self.ServeWaiters(), this, preferLocal: false);
        return waiter.Task;
    }

    private void ServeWaiters()
    {
        while (TakeWaiters() is { Length: > 0 } waiters)
        {
            try
            {
                WaitFor(waiters.Max(static waiter => waiter.Sequence));
                Array.ForEach(waiters, static waiter => waiter.SetResult());
            }
            catch (Exception error)
            {
                Array.ForEach(waiters, waiter => waiter.SetException(error));
            }
        }
    }

    private Waiter[] TakeWaiters()
    {
        lock (_gate)
        {
            Waiter[] waiters = [.. _waiters];
            _waiters.Clear();
            _areWaitersServed = waiters.Length > 0;
            return waiters;
        }
    }

    /// <summary>Continuations never run on the thread that serves the others.</summary>
    private sealed class Waiter(ulong sequence) : TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)
    {
        public ulong Sequence { get; } = sequence;
    }
}

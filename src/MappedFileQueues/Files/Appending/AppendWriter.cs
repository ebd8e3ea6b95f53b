namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The background thread of a stream, with its timer: it drains full buffers at once, and everything when the timer ticks.
/// </summary>
internal sealed class AppendWriter : IDisposable
{
    private readonly object _gate;
    private readonly AppendBuffers _buffers;
    private readonly AppendDrain _drain;
    private readonly ITimer? _timer;
    private readonly Thread _thread;

    /// <summary>Under the gate: the timer has ticked, and the thread has not looked yet.</summary>
    private bool _hasTicked;

    /// <exception cref="OutOfMemoryException">The system gives no thread.</exception>
    public AppendWriter(AppendBuffers buffers, AppendDrain drain, AppendFileOptions options)
    {
        (_buffers, _drain) = (buffers, drain);
        _gate = buffers.Gate;
        _thread = new Thread(Run) { IsBackground = true, Name = "MappedFileQueues append" };
        _timer = MakeTimer(options);
        try
        {
            _thread.UnsafeStart();
        }
        catch
        {
            _timer?.Dispose();
            throw;
        }
    }

    /// <summary>Ends the timer.</summary>
    public void StopTimer() => _timer?.Dispose();

    /// <summary>Waits until the thread has ended, which it does once the stream is closed and no long write goes on.</summary>
    public void Dispose() => _thread.Join();

    private ITimer? MakeTimer(AppendFileOptions options)
    {
        TimeSpan period = options.TickInterval;
        if (period == Timeout.InfiniteTimeSpan)
            return null;

        // What flows with the caller (a request, a transaction) does not belong to this timer for the life of the stream.
        using (ExecutionContext.SuppressFlow())
            return options.TimeProvider.CreateTimer(static writer => ((AppendWriter)writer!).Tick(), this, period, period);
    }

    private void Tick()
    {
        lock (_gate)
        {
            if (_hasTicked || (!_drain.IsBehind() && !_drain.IsRollDue() && !_drain.IsExpiryDue()))
                return;
            _hasTicked = true;
            Monitor.PulseAll(_gate);
        }
    }

    private void Run()
    {
        while (TryTakeWork(out bool hasTicked))
        {
            if (hasTicked)
            {
                _drain.FlushOnTick();
                continue;
            }

            _drain.WriteSealed();
            _buffers.StayAwakeWhile(isSealed: null);
        }
    }

    /// <summary>Waits for work and takes the role for it. False once the thread has to end.</summary>
    private bool TryTakeWork(out bool hasTicked)
    {
        lock (_gate)
        {
            while (!HasEnded() && (_drain.IsTaken || (_buffers.Sealed is null && !_hasTicked)))
                Monitor.Wait(_gate);
            (hasTicked, _hasTicked) = (_hasTicked, false);
            if (HasEnded())
                return false;
            _drain.Take();
            return true;
        }
    }

    private bool HasEnded() => _drain.Failure is not null || (_buffers.IsClosed && !_buffers.IsTaken);
}

using MappedFileQueues.Threads;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// The background thread of a stream: it drains full buffers at once, and everything at each tick. With the system's clock it
/// waits for the tick itself, because a timer would need a thread of the pool, and those may all be waiting for something.
/// </summary>
internal sealed class AppendWriter : IDisposable
{
    private readonly object _gate;
    private readonly AppendBuffers _buffers;
    private readonly AppendDrain _drain;
    private readonly ITimer? _timer;
    private readonly Thread _thread;

    /// <summary>Milliseconds between two ticks; 0 where a timer of another clock makes them, or nothing does.</summary>
    private readonly long _period;

    /// <summary>Only the thread uses it.</summary>
    private long _nextTick;

    /// <summary>Under the gate: the timer has ticked, and the thread has not looked yet.</summary>
    private bool _hasTicked;

    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public AppendWriter(AppendBuffers buffers, AppendDrain drain, AppendFileOptions options)
    {
        (_buffers, _drain) = (buffers, drain);
        _gate = buffers.Gate;
        if (options.TimeProvider != TimeProvider.System)
            _timer = MakeTimer(options);
        else if (options.TickInterval != Timeout.InfiniteTimeSpan)
            _period = Math.Max(1, (long)options.TickInterval.TotalMilliseconds);
        _nextTick = Environment.TickCount64 + _period;
        try
        {
            _thread = BackgroundThread.Start(Run, "append");
        }
        catch
        {
            _timer?.Dispose();
            throw;
        }
    }

    /// <summary>Ends the timer.</summary>
    public void StopTimer() => _timer?.Dispose();

    /// <summary>Waits until the thread has ended, which it does once the stream is closed and no long write continues.</summary>
    public void Dispose() => Uninterrupted.Run(_thread.Join);

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
            TickWhenDue();
            while (!HasEnded() && (_drain.IsTaken || (_buffers.Sealed is null && !_hasTicked)))
            {
                Wait();
                TickWhenDue();
            }

            (hasTicked, _hasTicked) = (_hasTicked, false);
            if (HasEnded())
                return false;
            _drain.Take();
            return true;
        }
    }

    private void Wait()
    {
        if (_period == 0)
            Monitor.Wait(_gate);
        else
            Monitor.Wait(_gate, (int)Math.Clamp(_nextTick - Environment.TickCount64, 0, int.MaxValue));
    }

    private void TickWhenDue()
    {
        long now = Environment.TickCount64;
        if (_period == 0 || now < _nextTick)
            return;
        _nextTick = now + _period;
        Tick();
    }

    private bool HasEnded() => _drain.Failure is not null || (_buffers.IsClosed && !_buffers.IsTaken);
}

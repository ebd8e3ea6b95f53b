namespace MappedFileQueues.Tests.Files;

/// <summary>A clock that is until it is told to continue; its timers fire on the thread that tells it.</summary>
internal sealed class ManualTime(DateTimeOffset? start = null, TimeZoneInfo? zone = null) : TimeProvider
{
    private readonly List<ManualTimer> _timers = [];
    private DateTimeOffset _now = start ?? DateTimeOffset.UtcNow;

    private int _zoneLookCount;

    public override TimeZoneInfo LocalTimeZone
    {
        get
        {
            Interlocked.Increment(ref _zoneLookCount);
            if (IsZoneBroken)
                throw new InvalidTimeZoneException("The zone is broken.");
            return zone ?? TimeZoneInfo.Utc;
        }
    }

    /// <summary>Whether it throws when it is asked for the time zone.</summary>
    public bool IsZoneBroken { get; set; }

    /// <summary>How often somebody has asked for the time zone.</summary>
    public int ZoneLookCount => Volatile.Read(ref _zoneLookCount);

    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    public override DateTimeOffset GetUtcNow() => _now;

    public override long GetTimestamp() => _now.UtcTicks;

    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        ManualTimer timer = new(() => callback(state), period);
        _timers.Add(timer);
        return timer;
    }

    public void Advance(TimeSpan time)
    {
        _now += time;

        // A callback may make another timer.
        foreach (ManualTimer timer in _timers.ToArray())
            timer.Advance(time);
    }

    /// <summary>The clock was wrong, and is put right. Timers do not notice it.</summary>
    public void PutBack(TimeSpan time) => _now -= time;

    private sealed class ManualTimer(Action callback, TimeSpan period) : ITimer
    {
        private TimeSpan _passed;
        private bool _isDisposed;

        /// <summary>Fires once, as a timer of the system does after a jump.</summary>
        public void Advance(TimeSpan time)
        {
            _passed += time;
            if (_passed < period || _isDisposed)
                return;
            _passed = TimeSpan.Zero;
            callback();
        }

        public bool Change(TimeSpan dueTime, TimeSpan period) => throw new NotSupportedException();

        public void Dispose() => _isDisposed = true;

        public ValueTask DisposeAsync()
        {
            Dispose();
            return ValueTask.CompletedTask;
        }
    }
}

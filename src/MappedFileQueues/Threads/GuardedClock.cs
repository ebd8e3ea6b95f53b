namespace MappedFileQueues.Threads;

/// <summary>
/// A user's clock for the library's own threads, whose exceptions would end the process. While it throws, the time that it told
/// last counts; before it has told any, the system's.
/// </summary>
internal sealed class GuardedClock : TimeProvider
{
    private readonly TimeProvider _clock;
    private long _utcTicks = System.GetUtcNow().UtcTicks;
    private long _timestamp;
    private TimeZoneInfo? _zone;

    private GuardedClock(TimeProvider clock) => (_clock, TimestampFrequency) = (clock, clock.TimestampFrequency);

    public override long TimestampFrequency { get; }

    public override TimeZoneInfo LocalTimeZone
    {
        get
        {
            try
            {
                Volatile.Write(ref _zone, _clock.LocalTimeZone);
            }
            catch (Exception)
            {
                // As for the time.
            }

            return Volatile.Read(ref _zone) ?? System.LocalTimeZone;
        }
    }

    /// <summary>The system's clock itself, which does not throw, and any other one guarded.</summary>
    public static TimeProvider Of(TimeProvider clock) => clock == System ? clock : new GuardedClock(clock);

    public override DateTimeOffset GetUtcNow()
    {
        try
        {
            Volatile.Write(ref _utcTicks, _clock.GetUtcNow().UtcTicks);
        }
        catch (Exception)
        {
            // Nobody waits here to be told.
        }

        return new DateTimeOffset(Volatile.Read(ref _utcTicks), TimeSpan.Zero);
    }

    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
        _clock.CreateTimer(callback, state, dueTime, period);

    public override long GetTimestamp()
    {
        try
        {
            Volatile.Write(ref _timestamp, _clock.GetTimestamp());
        }
        catch (Exception)
        {
            // As above.
        }

        return Volatile.Read(ref _timestamp);
    }
}

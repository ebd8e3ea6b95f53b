using MappedFileQueues.Files.Rolling;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// When the current file becomes too old, by a clock that may be put back. The thread that has the stream's draining role uses
/// it; <see cref="IsDue"/> may be called from any thread.
/// </summary>
internal sealed class RollSchedule(AppendFileOptions options)
{
    /// <summary>How soon a roll that could not be done is tried again.</summary>
    private static readonly TimeSpan s_retry = TimeSpan.FromMinutes(1);

    private long _dueTicks;

    /// <summary>What the clock said when it was looked at last; threads with the role or the gate write it.</summary>
    private long _clockTicks;

    /// <summary>Whether the clock was put back since the due time was found. As above.</summary>
    private volatile bool _wasClockPutBack;

    /// <summary>When the current file was begun.</summary>
    public DateTimeOffset Begun { get; private set; }

    /// <summary>Whether the last roll could not be done, so that the file is longer or older than it should be.</summary>
    public bool IsPutOff { get; private set; }

    /// <summary>
    /// From any thread: whether the current file is older than a file may become. Also when the clock was put back: then
    /// <see cref="Lowers"/> finds out.
    /// </summary>
    public bool IsDue()
    {
        long due = Volatile.Read(ref _dueTicks);
        if (due == long.MaxValue)
            return false;
        long before = Volatile.Read(ref _clockTicks);
        long now = ReadClock().UtcTicks;
        if (now < before)
            _wasClockPutBack = true;
        return _wasClockPutBack || now >= due;
    }

    /// <summary>
    /// True when the clock was put back. A clock that was a year ahead has told a due time that is a year ahead: from now on a
    /// file that was begun in the future is one that was begun now.
    /// </summary>
    public bool Lowers()
    {
        if (!_wasClockPutBack)
            return false;
        _wasClockPutBack = false;
        DateTimeOffset now = ReadClock();
        if (Begun > now)
            Begun = now;
        long due = IsPutOff ? (now + s_retry).UtcTicks : DueAfter(Begun, now);
        Volatile.Write(ref _dueTicks, Math.Min(Volatile.Read(ref _dueTicks), due));
        return true;
    }

    /// <summary>A file is begun now.</summary>
    public void Begin() => Begin(ReadClock(), ReadClock());

    /// <summary>A file is continued that was begun earlier.</summary>
    /// <param name="begun">When it was begun.</param>
    /// <param name="ofDay">A moment of the day to which its content belongs.</param>
    public void Begin(DateTimeOffset begun, DateTimeOffset ofDay)
    {
        IsPutOff = false;
        Begun = begun;
        Volatile.Write(ref _dueTicks, DueAfter(begun, ofDay));
    }

    /// <summary>The current file is one of today: nothing is in it yet.</summary>
    public void BeginDay() => Volatile.Write(ref _dueTicks, DueAfter(Begun, ReadClock()));

    /// <summary>A roll could not be done, and is tried again later; true the first time.</summary>
    public bool PutOff()
    {
        Volatile.Write(ref _dueTicks, (ReadClock() + s_retry).UtcTicks);
        bool isFirst = !IsPutOff;
        IsPutOff = true;
        return isFirst;
    }

    public DateTimeOffset ReadClock()
    {
        DateTimeOffset now = options.TimeProvider.GetUtcNow();
        Volatile.Write(ref _clockTicks, now.UtcTicks);
        return now;
    }

    /// <summary>When a file becomes too old.</summary>
    private long DueAfter(DateTimeOffset begun, DateTimeOffset ofDay)
    {
        long due = long.MaxValue;
        if (options.RollInterval != Timeout.InfiniteTimeSpan && options.RollInterval.Ticks < long.MaxValue - begun.UtcTicks)
            due = begun.UtcTicks + options.RollInterval.Ticks;
        return options.RollAtMidnight
            ? Math.Min(due, Midnight.After(ofDay, options.TimeProvider.LocalTimeZone).UtcTicks)
            : due;
    }
}

using System.Diagnostics;

namespace MappedFileQueues.Format.Headers;

/// <summary>
/// What a queue adds to the headers of the messages that it produces. Any thread. The system's clock is read once for each tick
/// of <see cref="Environment.TickCount64"/>, some milliseconds, which is a third of the cost.
/// </summary>
internal sealed class HeaderStamps(bool time, bool traceContext, TimeProvider clock)
{
    private readonly bool _isSystemClock = clock == TimeProvider.System;
    private long _tick = long.MinValue;
    private long _ticksUtc;

    /// <summary>Whether messages get a header block that their caller did not give.</summary>
    public bool StampsAny => time || traceContext;

    /// <summary>The fields of a message's block.</summary>
    public HeaderFields FieldsOf(MessageHeaders? headers, MessageNumber number = default) => new(
        headers,
        time && headers?.Time is null ? Now() : null,
        traceContext && Activity.Current is { } activity ? activity.Context : default,
        number);

    private DateTimeOffset Now()
    {
        if (!_isSystemClock)
            return clock.GetUtcNow();
        long tick = Environment.TickCount64;
        if (Volatile.Read(ref _tick) != tick)
        {
            Volatile.Write(ref _ticksUtc, clock.GetUtcNow().UtcTicks);
            Volatile.Write(ref _tick, tick);
        }

        return new DateTimeOffset(Volatile.Read(ref _ticksUtc), TimeSpan.Zero);
    }
}

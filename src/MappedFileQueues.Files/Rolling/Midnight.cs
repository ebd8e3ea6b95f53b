namespace MappedFileQueues.Files.Rolling;

/// <summary>The moments at which a new day begins, in a time zone of any rules.</summary>
internal static class Midnight
{
    /// <summary>
    /// More than the longest local day: some zones have repeated a whole one when they crossed the date line.
    /// </summary>
    private static readonly TimeSpan s_dayMax = TimeSpan.FromHours(50);

    /// <summary>
    /// The first moment after a given one at which the local date is a later one. A search, because 00:00 itself may come twice
    /// or not at all: some zones change their clocks at midnight, and some have left out a whole day.
    /// </summary>
    public static DateTimeOffset After(DateTimeOffset time, TimeZoneInfo zone)
    {
        DateTime day = DateOf(time.UtcTicks, zone);
        long before = time.UtcTicks;
        long after = Math.Min(before + s_dayMax.Ticks, DateTimeOffset.MaxValue.UtcTicks);
        while (after - before > 1)
        {
            long between = before + ((after - before) / 2);
            if (DateOf(between, zone) > day)
                after = between;
            else
                before = between;
        }

        return new DateTimeOffset(after, TimeSpan.Zero);
    }

    private static DateTime DateOf(long utcTicks, TimeZoneInfo zone) =>
        TimeZoneInfo.ConvertTimeFromUtc(new DateTime(utcTicks, DateTimeKind.Utc), zone).Date;
}

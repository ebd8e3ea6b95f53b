namespace MappedFileQueues.Tests.Files.Rolling;

/// <summary>Time zones made here: a machine without the zones' data has none but UTC.</summary>
internal static class Zones
{
    /// <summary>Central European Time: the last Sundays of March and October have 23 and 25 hours.</summary>
    public static TimeZoneInfo Berlin { get; } = Make(
        1,
        TimeZoneInfo.TransitionTime.CreateFloatingDateRule(At(2), 3, 5, DayOfWeek.Sunday),
        TimeZoneInfo.TransitionTime.CreateFloatingDateRule(At(3), 10, 5, DayOfWeek.Sunday));

    /// <summary>The clock goes from 00:00 to 01:00 on April 25th, and back from 00:00 to 23:00 on October 31st.</summary>
    public static TimeZoneInfo AtMidnight { get; } = Make(
        2,
        TimeZoneInfo.TransitionTime.CreateFixedDateRule(At(0), 4, 25),
        TimeZoneInfo.TransitionTime.CreateFixedDateRule(At(0), 10, 31));

    /// <summary>The clock goes back from 01:00 to 00:00 on November 1st: 00:00 comes twice.</summary>
    public static TimeZoneInfo TwiceMidnight { get; } = Make(
        -5,
        TimeZoneInfo.TransitionTime.CreateFixedDateRule(At(2), 3, 10),
        TimeZoneInfo.TransitionTime.CreateFixedDateRule(At(1), 11, 1));

    private static DateTime At(int hour) => new(1, 1, 1, hour, 0, 0);

    private static TimeZoneInfo Make(int hours, TimeZoneInfo.TransitionTime begins, TimeZoneInfo.TransitionTime ends) =>
        TimeZoneInfo.CreateCustomTimeZone(
            $"test {hours}", TimeSpan.FromHours(hours), null, null, null,
            [TimeZoneInfo.AdjustmentRule.CreateAdjustmentRule(
                DateTime.MinValue.Date, DateTime.MaxValue.Date, TimeSpan.FromHours(1), begins, ends)]);
}

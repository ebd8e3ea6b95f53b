using System.Globalization;
using MappedFileQueues.Files.Rolling;

namespace MappedFileQueues.Tests.Files.Rolling;

/// <summary>A day begins where the local date changes, whatever the clocks do on that day.</summary>
public sealed class MidnightTests
{
    [Theory]
    [InlineData("UTC", "2025-03-29T23:59:59Z", "2025-03-30T00:00:00Z")]
    [InlineData("UTC", "2025-03-30T00:00:00Z", "2025-03-31T00:00:00Z")]
    [InlineData("Berlin", "2025-01-15T12:00:00Z", "2025-01-15T23:00:00Z")]
    [InlineData("Berlin", "2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z")]
    [InlineData("Berlin", "2025-10-25T22:00:00Z", "2025-10-26T23:00:00Z")]
    [InlineData("AtMidnight", "2025-04-24T12:00:00Z", "2025-04-24T22:00:00Z")]
    [InlineData("AtMidnight", "2025-04-24T22:00:00Z", "2025-04-25T21:00:00Z")]
    [InlineData("AtMidnight", "2025-10-30T20:30:00Z", "2025-10-30T22:00:00Z")]
    [InlineData("AtMidnight", "2025-10-30T21:30:00Z", "2025-10-30T22:00:00Z")]
    [InlineData("TwiceMidnight", "2025-10-31T12:00:00Z", "2025-11-01T04:00:00Z")]
    [InlineData("TwiceMidnight", "2025-11-01T04:00:00Z", "2025-11-02T05:00:00Z")]
    public void After_DaysOfAnyLength_IsTheFirstMomentOfTheNextDate(string zone, string time, string expected) =>
        Assert.Equal(Parse(expected), Midnight.After(Parse(time), ZoneOf(zone)));

    /// <summary>Each moment of four years is in exactly one day, and days are 23 to 25 hours long.</summary>
    [Theory]
    [InlineData("Berlin")]
    [InlineData("AtMidnight")]
    [InlineData("TwiceMidnight")]
    public void After_DayByDay_EachDateComesOnce(string zone)
    {
        TimeZoneInfo local = ZoneOf(zone);
        DateTimeOffset at = Midnight.After(Parse("2023-12-31T12:00:00Z"), local);
        for (int day = 0; day < 4 * 365; day++)
        {
            DateTimeOffset next = Midnight.After(at, local);
            Assert.InRange(next - at, TimeSpan.FromHours(23), TimeSpan.FromHours(25));
            Assert.Equal(DateOf(at, local).AddDays(1), DateOf(next, local));
            Assert.Equal(DateOf(at, local), DateOf(next.AddTicks(-1), local));
            Assert.Equal(next, Midnight.After(at + ((next - at) / 2), local));
            at = next;
        }
    }

    private static DateTime DateOf(DateTimeOffset time, TimeZoneInfo zone) => TimeZoneInfo.ConvertTime(time, zone).Date;

    private static DateTimeOffset Parse(string text) => DateTimeOffset.Parse(text, CultureInfo.InvariantCulture);

    private static TimeZoneInfo ZoneOf(string name) => name switch
    {
        "Berlin" => Zones.Berlin,
        "AtMidnight" => Zones.AtMidnight,
        "TwiceMidnight" => Zones.TwiceMidnight,
        _ => TimeZoneInfo.Utc,
    };
}

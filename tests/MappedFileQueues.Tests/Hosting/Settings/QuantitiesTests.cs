extern alias hosting;

using Quantities = hosting::MappedFileQueues.Hosting.Settings.Quantities;

namespace MappedFileQueues.Tests.Hosting.Settings;

/// <summary>The text of lengths and times, in configuration and on the command line.</summary>
public sealed class QuantitiesTests
{
    [Theory]
    [InlineData("0", 0)]
    [InlineData("4096", 4096)]
    [InlineData("12B", 12)]
    [InlineData("64KiB", 64L << 10)]
    [InlineData("64mib", 64L << 20)]
    [InlineData("10GiB", 10L << 30)]
    [InlineData("3K", 3L << 10)]
    [InlineData("3M", 3L << 20)]
    [InlineData("1G", 1L << 30)]
    [InlineData("9223372036854775807", long.MaxValue)]
    public void TryParseLength_LengthWithOrWithoutUnit_IsItsBytes(string text, long expected)
    {
        Assert.True(Quantities.TryParseLength(text, out long length));
        Assert.Equal(expected, length);
    }

    [Theory]
    [InlineData("")]
    [InlineData("B")]
    [InlineData("-1")]
    [InlineData("+1")]
    [InlineData("1.5GiB")]
    [InlineData("64MB")]
    [InlineData("64 MiB")]
    [InlineData("8589934592GiB")]
    [InlineData("1e6")]
    public void TryParseLength_AnythingElse_IsRefused(string text) => Assert.False(Quantities.TryParseLength(text, out _));

    [Theory]
    [InlineData("0", 0)]
    [InlineData("500ms", 500)]
    [InlineData("1.5s", 1500)]
    [InlineData("5m", 300_000)]
    [InlineData("72h", 259_200_000)]
    [InlineData("00:00:05", 5000)]
    [InlineData("00:00:00.25", 250)]
    [InlineData("7.00:00:00", 604_800_000)]
    [InlineData("infinite", -1)]
    [InlineData("-00:00:00.001", -1)]
    public void TryParseTime_TimeWithUnitOrColons_IsThatTime(string text, long milliseconds)
    {
        Assert.True(Quantities.TryParseTime(text, out TimeSpan time));
        Assert.Equal(TimeSpan.FromMilliseconds(milliseconds), time);
    }

    /// <summary>.NET reads 72 as days, and so it does with 24:00:00.</summary>
    [Theory]
    [InlineData("")]
    [InlineData("72")]
    [InlineData("1.5")]
    [InlineData("24:00:00")]
    [InlineData("-00:00:05")]
    [InlineData("-1s")]
    [InlineData("NaN")]
    [InlineData("-Infinity")]
    [InlineData("5 s")]
    [InlineData("5d")]
    [InlineData("1e9h")]
    [InlineData("9999999999s")]
    public void TryParseTime_AnythingElse_IsRefused(string text) => Assert.False(Quantities.TryParseTime(text, out _));
}

using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`--from` and `--to`: places by number and by time.</summary>
public sealed class PlaceTests : IDisposable
{
    private static readonly string s_longAgo = "2001-01-31T12:00Z";
    private static readonly string s_later = $"{DateTime.UtcNow.Year + 2}-01-31";

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("consume")]
    [InlineData("export")]
    [InlineData("tail", "--no-follow")]
    public void From_NumberAndTime_BeginsThere(string command, params string[] more)
    {
        ToolRun.WithInput([.. "zero\none\ntwo\nthree\n"u8], "produce", _temp.StorePath).Expect(0);

        Assert.Equal(2, CountOf("#2"));
        Assert.Equal(0, CountOf("#4"));
        Assert.Equal(4, CountOf(s_longAgo));
        Assert.Equal(0, CountOf(s_later));
        Assert.Contains("no message of this number yet", From("#5").Expect(1).Error, StringComparison.Ordinal);
        foreach (string place in new[] { "#-1", "#x", "1.5", "2001-13-01" })
            Assert.Contains("--from", From(place).Expect(2).Error, StringComparison.Ordinal);

        ToolRun From(string place) => ToolRun.Of([command, _temp.StorePath, .. more, "--from", place]);
        // An export has a line before its messages and one after them.
        int CountOf(string place) => From(place).Expect(0).Lines.Length - (command == "export" ? 2 : 0);
    }

    [Fact]
    public void Reset_NumberAndTime_MovesTheConsumer()
    {
        ToolRun.WithInput([.. "zero\none\ntwo\nthree\n"u8], "produce", _temp.StorePath).Expect(0);

        Assert.Equal(32, OffsetAfter("#2"));
        Assert.Equal(0, OffsetAfter(s_longAgo));
        Assert.Equal(64, OffsetAfter(s_later));
        Assert.Equal(
            ["three"],
            ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--from", "#3").Expect(0).Lines);

        long OffsetAfter(string place) => JsonDocument.Parse(
            ToolRun.Of("consumers", "reset", _temp.StorePath, "billing", "--to", place, "--output", "json").Expect(0).Output)
            .RootElement.GetProperty("offset").GetInt64();
    }

    [Fact]
    public void Tail_FromAndLast_ExcludeEachOther() => Assert.Contains(
        "--from and --last exclude each other",
        ToolRun.Of("tail", _temp.StorePath, "--from", "start", "--last", "1").Expect(2).Error, StringComparison.Ordinal);
}

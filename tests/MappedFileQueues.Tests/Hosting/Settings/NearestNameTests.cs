extern alias hosting;

using NearestName = hosting::MappedFileQueues.Hosting.Settings.NearestName;

namespace MappedFileQueues.Tests.Hosting.Settings;

/// <summary>The suggestion for a name that nobody knows.</summary>
public sealed class NearestNameTests
{
    private static readonly string[] s_known = ["Path", "RollLength", "RetryInterval", "FreeBytesMin", "analytics"];

    [Theory]
    [InlineData("Pth", "Path")]
    [InlineData("path", "Path")]
    [InlineData("Paht", "Path")]
    [InlineData("RollLenght", "RollLength")]
    [InlineData("analitics", "analytics")]
    [InlineData("Retry", "RetryInterval")]
    [InlineData("Free", "FreeBytesMin")]
    [InlineData("Pt", null)]
    [InlineData("Durability", null)]
    [InlineData("", null)]
    public void Of_Word_IsTheKnownNameThatIsNear(string word, string? expected) =>
        Assert.Equal(expected, NearestName.Of(word, s_known));
}

using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>What a run of the bench wrote to its JSON file.</summary>
internal static class BenchResults
{
    /// <summary>The figures, or the rows, of a file.</summary>
    public static JsonElement[] Of(string json) =>
        [.. JsonElement.Parse(File.ReadAllText(json)).GetProperty("results").EnumerateArray()];

    /// <summary>Holds a file to figures with these units, no more and no fewer, each measured on both sides.</summary>
    public static void ExpectUnits(string json, IReadOnlyDictionary<string, string> units)
    {
        JsonElement[] figures = Of(json);
        Assert.Equal(
            units.Select(each => $"{each.Key} {each.Value}").Order(),
            figures.Select(figure => $"{figure.GetProperty("name")} {figure.GetProperty("unit")}").Order());
        Assert.All(figures, figure => Assert.True(figure.GetProperty("value").GetDouble() > 0));
        Assert.All(figures, figure => Assert.True(figure.GetProperty("raw").GetDouble() > 0));
    }
}

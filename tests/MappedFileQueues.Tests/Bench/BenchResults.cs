using System.Text.Json;

namespace MappedFileQueues.Tests.Bench;

/// <summary>What a run of the bench wrote to its JSON file.</summary>
internal static class BenchResults
{
    /// <summary>The figures, or the rows, of a file.</summary>
    public static JsonElement[] Of(string json) =>
        [.. JsonElement.Parse(File.ReadAllText(json)).GetProperty("results").EnumerateArray()];
}

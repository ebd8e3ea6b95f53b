using System.Text.Json;
using System.Text.Json.Serialization;

namespace MappedFileQueues.Tool.Bench;

/// <summary>The generated serializers: the results for `--json`, and the samples passed between the processes of a run.</summary>
[JsonSourceGenerationOptions(JsonSerializerDefaults.Web)]
[JsonSerializable(typeof(FigureResult[]))]
[JsonSerializable(typeof(BenchResult))]
[JsonSerializable(typeof(Samples[]))]
internal sealed partial class BenchJson : JsonSerializerContext
{
    private static readonly BenchJson s_indented =
        new(new JsonSerializerOptions(JsonSerializerDefaults.Web) { WriteIndented = true });

    /// <summary>The results as an array, indented.</summary>
    public static string Of(IEnumerable<FigureResult> results) =>
        JsonSerializer.Serialize([.. results], s_indented.FigureResultArray);

    /// <summary>Writes the results as an array, indented.</summary>
    public static void Write(string path, IEnumerable<FigureResult> results) => File.WriteAllText(path, Of(results));
}

/// <summary>The result of `mfq bench`.</summary>
/// <param name="Figures">The figures.</param>
internal sealed record BenchResult(IReadOnlyList<FigureResult> Figures);

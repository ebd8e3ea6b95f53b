using System.Text.Json;
using System.Text.Json.Serialization;

namespace MappedFileQueues.Bench.Measuring;

/// <summary>The generated serializers: the results for `--json`, and the samples passed between the processes of a run.</summary>
[JsonSourceGenerationOptions(JsonSerializerDefaults.Web)]
[JsonSerializable(typeof(FigureResult[]))]
[JsonSerializable(typeof(Samples[]))]
internal sealed partial class BenchJson : JsonSerializerContext
{
    private static readonly BenchJson s_indented =
        new(new JsonSerializerOptions(JsonSerializerDefaults.Web) { WriteIndented = true });

    /// <summary>The results as an array, indented.</summary>
    public static string Of(IEnumerable<FigureResult> results) =>
        JsonSerializer.Serialize([.. results], s_indented.FigureResultArray);
}

using System.Text.Json;
using System.Text.Json.Serialization;
using MappedFileQueues.Tool.Bench.Measuring;

namespace MappedFileQueues.Tool.Bench.Reporting;

/// <summary>The generated serialisers: the results for `--json`, the samples between the processes of a run.</summary>
[JsonSourceGenerationOptions(JsonSerializerDefaults.Web)]
[JsonSerializable(typeof(FigureResult[]))]
[JsonSerializable(typeof(Samples[]))]
internal sealed partial class BenchJson : JsonSerializerContext
{
    /// <summary>Writes the results as an array, indented.</summary>
    public static void Write(string path, IEnumerable<FigureResult> results)
    {
        using FileStream file = File.Create(path);
        using Utf8JsonWriter writer = new(file, new JsonWriterOptions { Indented = true });
        JsonSerializer.Serialize(writer, [.. results], Default.FigureResultArray);
    }
}

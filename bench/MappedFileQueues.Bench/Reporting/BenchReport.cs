using System.Globalization;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace MappedFileQueues.Bench.Reporting;

/// <summary>A run as `--json` writes it: what was measured, and what has to be known to repeat it.</summary>
/// <param name="Date">When it began, UTC.</param>
/// <param name="Commit">The commit that was measured, or "unknown".</param>
/// <param name="Command">The bench's arguments, without those that only say where files go.</param>
/// <param name="Run">What a repetition was.</param>
/// <param name="Machine">Processor, CPUs, memory, architecture.</param>
/// <param name="Kernel">The kernel's release, and the system.</param>
/// <param name="FileSystem">The type of the file system below the files.</param>
/// <param name="Runtime">The .NET runtime.</param>
/// <param name="Results">The figures, in the order of measuring.</param>
internal sealed record BenchReport(
    string Date,
    string Commit,
    string Command,
    string Run,
    string Machine,
    string Kernel,
    string FileSystem,
    string Runtime,
    IReadOnlyList<ReportedFigure> Results)
{
    /// <summary>The commit of a build outside a checkout, and of runs that did not write it down.</summary>
    public const string Unknown = "unknown";

    /// <summary>The report of a run of this program that ends now.</summary>
    public static BenchReport Of(
        BenchSettings settings, DateTime start, IEnumerable<string> arguments, IEnumerable<FigureResult> results) => new(
        start.ToString("yyyy-MM-dd HH:mm", CultureInfo.InvariantCulture),
        BenchHead.Commit.Contains('+') ? BenchHead.Commit.Split('+')[^1] : Unknown,
        string.Join(' ', WithoutPlaces(arguments)),
        settings.Work,
        BenchHead.Machine,
        BenchHead.Kernel,
        BenchHead.FileSystemOf(settings.Directory),
        BenchHead.Runtime,
        [
            .. results.Select(result => new ReportedFigure(
                result.Name, result.Value, result.Unit, result.Raw, result.Ratio, result.Min, result.Max)),
        ]);

    public void Write(string path) => File.WriteAllText(
        path, JsonSerializer.Serialize(this, BenchReportJson.Indented.BenchReport).ReplaceLineEndings("\n") + "\n");

    private static IEnumerable<string> WithoutPlaces(IEnumerable<string> arguments)
    {
        bool isPlace = false;
        foreach (string argument in arguments)
        {
            bool isOption = argument is "--json" or "--dir" or "--output" or "-o";
            if (!isOption && !isPlace)
                yield return argument;
            isPlace = isOption;
        }
    }
}

/// <summary>One figure of a report; what older runs did not write down is missing.</summary>
internal sealed record ReportedFigure(
    string Name, double Value, string Unit, double? Raw, double? Ratio, double? Min, double? Max);

/// <summary>The generated serializer of reports.</summary>
[JsonSourceGenerationOptions(JsonSerializerDefaults.Web)]
[JsonSerializable(typeof(BenchReport))]
internal sealed partial class BenchReportJson : JsonSerializerContext
{
    /// <summary>One property a line; readable in a diff.</summary>
    public static BenchReportJson Indented { get; } = new(new JsonSerializerOptions(JsonSerializerDefaults.Web)
    {
        WriteIndented = true,
        Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
    });
}

using System.Text.Json;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// The checked-in results that the pages show: one file a group, `bench/figures/GROUP.json`, as `--json` writes it. A page
/// that names a group without a file reports it.
/// </summary>
internal sealed class FigureSources
{
    public const string Folder = "bench/figures";

    private readonly Dictionary<string, BenchReport> _reports = [];

    public FigureSources(string root)
    {
        string folder = Path.Combine(root, Folder);
        if (!Directory.Exists(folder))
            throw new ToolException($"There are no figures: folder={folder}.");
        foreach (string path in Directory.EnumerateFiles(folder, "*.json").Order(StringComparer.Ordinal))
            _reports.Add(Path.GetFileNameWithoutExtension(path), Read(path));
    }

    /// <summary>All groups by name.</summary>
    public IReadOnlyDictionary<string, BenchReport> Reports => _reports;

    /// <summary>A figure of a group, or null.</summary>
    public ReportedFigure? Find(string group, string name) =>
        _reports.GetValueOrDefault(group)?.Results.FirstOrDefault(result => result.Name == name);

    private static BenchReport Read(string path)
    {
        try
        {
            BenchReport? report = JsonSerializer.Deserialize(File.ReadAllText(path), BenchReportJson.Indented.BenchReport);
            return report is { Results: not null, Commit.Length: >= 7 }
                ? report
                : throw new ToolException($"The file holds no results: file={path}.");
        }
        catch (JsonException exception)
        {
            throw new ToolException($"The file is no report of the bench: file={path}, {exception.Message}");
        }
    }
}

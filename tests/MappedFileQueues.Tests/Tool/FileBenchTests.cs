using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// The figures about files with tiny input, so that none stops working unseen. The values mean nothing at this size.
/// </summary>
public sealed class FileBenchTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    private static readonly string[] s_figureFields = ["name", "value", "unit", "raw", "ratio", "min", "max"];

    /// <summary>The figures of appending that are promised; the suite may have more.</summary>
    private static readonly string[] s_names =
    [
        "append_4k_first", "append_4k_second", "lines_1", "lines_1_filestream", "lines_1_filestream_best", "lines_4", "log_line",
    ];

    /// <summary>The figures of reading that are promised everywhere; cold reading needs Linux.</summary>
    private static readonly Dictionary<string, string> s_readingUnits = new()
    {
        ["read_seq_warm"] = "MB/s",
        ["read_seq_warm_mapped"] = "MB/s",
        ["read_seq_warm_blocks"] = "MB/s",
        ["read_seq_warm_copied"] = "MB/s",
        ["read_lines"] = "ns",
    };

    [Fact]
    public void BenchFiles_TinyInput_WritesEveryFigureAndTableAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "figures.json");
        using ChildProcess bench = ChildProcess.StartTool(
            "bench", "files", "--quick", "--bytes", "300000", "--dir", folder.StorePath, "--json", json);

        bench.ExpectExit(0, s_deadline);

        Dictionary<string, JsonElement> figures = JsonElement.Parse(File.ReadAllText(json)).EnumerateArray()
            .ToDictionary(figure => figure.GetProperty("name").GetString()!);
        Assert.Superset(s_names.ToHashSet(), figures.Keys.ToHashSet());
        foreach (JsonElement figure in s_names.Select(name => figures[name]))
        {
            Assert.Equal(s_figureFields, figure.EnumerateObject().Select(field => field.Name));
            Assert.Equal("ns", figure.GetProperty("unit").GetString());
            Assert.True(figure.GetProperty("value").GetDouble() > 0);
            Assert.True(figure.GetProperty("raw").GetDouble() > 0);
        }

        if (OperatingSystem.IsLinux())
            Assert.Equal("MB/s", figures["read_seq_cold"].GetProperty("unit").GetString());
        Assert.All(s_readingUnits, unit => Assert.Equal(unit.Value, figures[unit.Key].GetProperty("unit").GetString()));
        Assert.All(s_readingUnits.Keys, name => Assert.True(figures[name].GetProperty("value").GetDouble() > 0));

        string[] rows = ["none", "reused", .. OperatingSystem.IsLinux() ? new[] { "fallocate", "zero range" } : []];
        Assert.All(rows, row => Assert.Contains(bench.Lines, line =>
            line.StartsWith(row + "  ", StringComparison.Ordinal) && line.Contains("each write", StringComparison.Ordinal)));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Theory]
    [InlineData("--only", "append_exclusive")]
    [InlineData("--bytes", "1")]
    public void BenchFiles_WrongArguments_ExitsWithUsageAndLeavesNoFiles(string option, string value)
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartTool("bench", "files", "--dir", folder.StorePath, option, value);

        bench.ExpectExit(2);

        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }
}

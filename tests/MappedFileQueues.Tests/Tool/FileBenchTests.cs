using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// The figures about files with tiny input, so that none stops working unseen. The values mean nothing at this size.
/// </summary>
[Trait("Category", "Slow")]
public sealed class FileBenchTests
{
    private static readonly string[] s_tiny = ["--quick", "--bytes", "300000", "--repetitions", "1", "--no-warm-up"];

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    private static readonly string[] s_figureFields = ["name", "value", "unit", "raw", "ratio", "min", "max"];

    /// <summary>The figures of appending that are promised; the suite may have more.</summary>
    private static readonly string[] s_names =
    [
        "append_4k_first", "append_4k_second", "lines_1", "lines_1_filestream", "lines_1_filestream_best", "lines_4",
        "lines_1_new", "lines_4_new", "lines_1_default", "lines_4_default", "log_line",
    ];

    /// <summary>The figures of reading that are promised everywhere; cold reading needs Linux.</summary>
    private static readonly Dictionary<string, string> s_readingUnits = new()
    {
        ["read_seq_warm"] = "MB/s",
        ["read_seq_warm_blocks"] = "MB/s",
        ["read_seq_warm_copied"] = "MB/s",
        ["read_seq_warm_filestream_0"] = "MB/s",
        ["read_seq_warm_direct"] = "MB/s",
        ["read_lines"] = "ns",
    };

    [Fact]
    public void BenchFiles_TinyInput_WritesEveryFigureAndTableAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "figures.json");
        using ChildProcess bench = ChildProcess.StartBench(
            ["files", .. s_tiny, "--dir", folder.StorePath, "--json", json]);

        bench.ExpectExit(0, s_deadline);

        Dictionary<string, JsonElement> figures = BenchResults.Of(json)
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

        // What waits for the disk shares no column with what does not, and each figure says which it is.
        int flushed = Line(bench, "With flushes to the disk");
        Assert.InRange(Line(bench, "lines_4_new "), 0, flushed);
        Assert.InRange(Line(bench, "lines_4_default "), flushed, int.MaxValue);
        Assert.Contains(bench.Lines, line =>
            line.StartsWith("lines_1, ", StringComparison.Ordinal)
            && line.Contains("lines_4: over blocks that were written before, without a flush", StringComparison.Ordinal));
        string[] syncs = ["none", "at the end", "each write"];
        Assert.Equal(
            syncs.Select(sync => $"Flush: {sync}"),
            bench.Lines.Where(line => line.StartsWith("Flush: ", StringComparison.Ordinal)));

        string[] rows = ["none", "reused", .. OperatingSystem.IsLinux() ? new[] { "fallocate", "zero range" } : []];
        Assert.All(rows, row => Assert.Equal(
            row == "none" ? 2 * syncs.Length : syncs.Length,
            bench.Lines.Count(line => line.StartsWith(row + "  ", StringComparison.Ordinal))));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void BenchPacks_LongPut_PassesTheEndOfAVolumeAndShowsTheLongest()
    {
        using TempStore folder = new(createStoreFolder: true);

        ToolRun run = ToolRun.OfBench(
            ["packs", .. s_tiny, "--only", "pack_put_long,pack_put_long_max", "--dir", folder.StorePath, "--output", "json"])
            .Expect(0);

        Dictionary<string, JsonElement> figures = JsonElement.Parse(run.Text).EnumerateArray()
            .ToDictionary(figure => figure.GetProperty("name").GetString()!);
        Assert.Equal("us", figures["pack_put_long_max"].GetProperty("unit").GetString());
        Assert.InRange(figures["pack_put_long"].GetProperty("raw").GetDouble(), 1, double.MaxValue);
        Assert.True(
            figures["pack_put_long_max"].GetProperty("value").GetDouble() * 1e3
                >= figures["pack_put_long"].GetProperty("value").GetDouble());
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Theory]
    [InlineData("--only", "append_exclusive")]
    [InlineData("--bytes", "1")]
    public void BenchFiles_WrongArguments_ExitsWithUsageAndLeavesNoFiles(string option, string value)
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartBench("files", "--dir", folder.StorePath, option, value);

        bench.ExpectExit(2);

        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    private static int Line(ChildProcess bench, string start)
    {
        string[] lines = [.. bench.Lines];
        int index = Array.FindIndex(lines, line => line.StartsWith(start, StringComparison.Ordinal));
        Assert.True(index >= 0, $"No line begins with this: {start}");
        return index;
    }
}

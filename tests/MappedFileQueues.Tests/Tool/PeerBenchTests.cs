using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// The figures beside other libraries with tiny input, so that none stops working unseen. The values mean nothing at this size.
/// </summary>
[Trait("Category", "Slow")]
public sealed class PeerBenchTests
{
    private static readonly string[] s_tiny = ["--quick", "--messages", "2000", "--repetitions", "1", "--no-warm-up"];

    /// <summary>The figures that are promised, with their units; the suite may have more.</summary>
    private static readonly Dictionary<string, string> s_units = new()
    {
        ["append_fasterlog"] = "ns",
        ["read_fasterlog"] = "ns",
        ["append_sqlite"] = "ns",
        ["read_sqlite"] = "ns",
        ["append_channel"] = "ns",
        ["read_channel"] = "ns",
        ["append_exclusive_fasterlog"] = "ns",
        ["append_exclusive_channel"] = "ns",
        ["append_prepared_fasterlog"] = "ns",
        ["pass_fasterlog"] = "msg/s",
        ["pass_sqlite"] = "msg/s",
        ["pass_channel"] = "msg/s",
        ["pass_2proc_sqlite"] = "msg/s",
        ["durable_1_fasterlog"] = "msg/s",
        ["durable_1_sqlite"] = "msg/s",
        ["durable_1_persistentchannel"] = "msg/s",
        ["durable_64_fasterlog"] = "msg/s",
        ["durable_64_sqlite"] = "msg/s",
        ["durable_64_sqlite_locked"] = "msg/s",
        ["durable_64_persistentchannel"] = "msg/s",
        ["durable_batch_sqlite"] = "msg/s",
        ["durable_read_persistentchannel"] = "msg/s",
        ["durable_pass_persistentchannel"] = "msg/s",
        ["log_line_serilog"] = "ns",
        ["log_line_zlogger"] = "ns",
        ["log_line_nlog"] = "ns",
        ["log_line_4_serilog"] = "ns",
        ["log_line_4_zlogger"] = "ns",
        ["log_line_4_nlog"] = "ns",
    };

    [Fact]
    public void BenchPeers_TinyInput_WritesEveryFigureAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "figures.json");

        ToolRun run = ToolRun.OfBench(["peers", .. s_tiny, "--dir", folder.StorePath, "--json", json]).Expect(0);

        BenchResults.ExpectUnits(json, s_units);
        Assert.Empty(run.Error);

        // What waits for the disk shares no column with what does not.
        int flushed = Array.FindIndex(run.Lines, line => line.StartsWith("With flushes", StringComparison.Ordinal));
        Assert.All(
            run.Lines.Index().Where(line => s_units.ContainsKey(line.Item.Split(' ')[0])),
            line => Assert.Equal(line.Item.StartsWith("durable_", StringComparison.Ordinal), line.Index > flushed));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    /// <summary>The library of one peer cannot be loaded: its figure is missing, with a sentence, the others are there.</summary>
    [Fact]
    public void BenchPeers_PeerThatDoesNotStart_LeavesOutItsFiguresOnly()
    {
        const string Library = "FASTER.core.dll";
        using TempStore folder = new(createStoreFolder: true);
        string program = folder.PathOf("program");
        Directory.CreateDirectory(program);
        string original = Path.GetDirectoryName(Repository.BenchPath)!;
        foreach (string file in Directory.EnumerateFiles(original, "*", SearchOption.AllDirectories))
        {
            string copy = Path.Combine(program, Path.GetRelativePath(original, file));
            Directory.CreateDirectory(Path.GetDirectoryName(copy)!);
            if (Path.GetFileName(file) == Library)
                File.WriteAllText(copy, "no library");
            else
                File.Copy(file, copy);
        }

        ToolRun run = ToolRun.Start(
            new("dotnet",
            [
                "exec", Path.Combine(program, Path.GetFileName(Repository.BenchPath)), "peers", .. s_tiny,
                "--dir", folder.StorePath, "--only", "append_fasterlog,append_channel", "--output", "json",
            ]),
            []).Expect(0);

        JsonElement figure = Assert.Single(JsonElement.Parse(run.Text).EnumerateArray());
        Assert.Equal("append_channel", figure.GetProperty("name").GetString());
        Assert.Contains("append_fasterlog", run.Error, StringComparison.Ordinal);
        Assert.Contains("left out, FasterLog does not start here", run.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("queues", "append_exclusive")]
    [InlineData("headline", "WriteStruct")]
    [InlineData("files", "append_4k_first")]
    [InlineData("packs", "pack_put")]
    [InlineData("bridge", "bridge_forward")]
    [InlineData("peers", "append_fasterlog")]
    [InlineData("dotnet-io", "copy")]
    public void Bench_NameThatIsNotThere_SaysWhichAre(string group, string name)
    {
        ToolRun run = ToolRun.OfBench(group, "--only", "no_such_name").Expect(2);

        Assert.Contains("no_such_name", run.Error, StringComparison.Ordinal);
        Assert.Contains(name, run.Error, StringComparison.Ordinal);
    }
}

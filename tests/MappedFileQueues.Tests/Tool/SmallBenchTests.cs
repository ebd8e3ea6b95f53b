using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq bench`: five figures, each beside a raw loop; what they read is checked by the command itself.</summary>
[Trait("Category", "Slow")]
public sealed class SmallBenchTests
{
    [Fact]
    [Trait("Category", "Laboratory")]
    public void Bench_Json_HasEveryFigureAndLeavesNothingBehind()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "figures.json");

        ToolRun run = ToolRun.OfProcess("bench", "--dir", folder.StorePath, "--json", json, "--output", "json").Expect(0);

        using JsonDocument written = JsonDocument.Parse(File.ReadAllText(json));
        Assert.Equal(
            ["append", "read", "round_trip", "durable_1", "durable_64"],
            written.RootElement.EnumerateArray().Select(figure => figure.GetProperty("name").GetString()!));
        Assert.All(written.RootElement.EnumerateArray(), figure =>
        {
            Assert.True(figure.GetProperty("value").GetDouble() > 0);
            Assert.True(figure.GetProperty("raw").GetDouble() > 0);
        });
        JsonPage.Check("bench", run.Text);
        Assert.All(["append", "durable_64"], name => Assert.Contains(name, run.Text, StringComparison.Ordinal));
        Assert.Empty(Directory.GetFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void Bench_DirectoryIsAFile_IsAnErrorLine()
    {
        using TempStore folder = new(createStoreFolder: true);
        string file = Path.Combine(folder.Root, "file");
        File.WriteAllText(file, "");

        ToolRun run = ToolRun.Of("bench", "--dir", file).Expect(1);

        Assert.Contains(file, run.Error, StringComparison.Ordinal);
        Assert.Single(run.Error.Split('\n', StringSplitOptions.RemoveEmptyEntries));
    }

    [Fact]
    public void Bench_Interrupted_LeavesNothingBehind()
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartTool("bench", "--dir", folder.StorePath);
        Eventually.True(() => Directory.GetFileSystemEntries(folder.StorePath).Length > 0, "the bench has begun");
        bench.Signal(ChildProcess.SigTerm);

        bench.ExpectExit(128 + ChildProcess.SigTerm);
        Assert.Empty(Directory.GetFileSystemEntries(folder.StorePath));
    }
}

using System.Text.Json;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Packs;

/// <summary>The figures about packs with tiny input, so that none stops working unseen.</summary>
[Trait("Category", "Slow")]
public sealed class PackBenchTests
{
    /// <summary>`pack_get_cold` needs root, and drops the caches of the whole machine: not in a test.</summary>
    private static readonly string[] s_names =
        ["pack_put", "pack_get_warm", "pack_get_read", "pack_index_bytes", "pack_open", "pack_get_many"];

    [Fact]
    public void BenchPacks_TinyInput_WritesEveryFigureAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "figures.json");
        using ChildProcess bench = ChildProcess.StartBench(
            "packs", "--quick", "--bytes", "300000", "--only", string.Join(',', s_names), "--dir", folder.StorePath,
            "--json", json);

        bench.ExpectExit(0, TimeSpan.FromMinutes(5));

        JsonElement[] figures = BenchResults.Of(json);
        Assert.Equal(s_names.Order(), figures.Select(figure => figure.GetProperty("name").GetString()!).Order());
        Assert.All(figures, figure => Assert.True(figure.GetProperty("value").GetDouble() > 0));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }
}

using System.Text.Json;
using MappedFileQueues.Tests.Interop;
using MappedFileQueues.Tests.Tool;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Tests.Bench;

/// <summary>
/// The groups of the bench with tiny input, so that no figure stops working unseen. The figures are those of the checked-in
/// results. The values mean nothing at this size, and none is asserted beyond what holds for any honest measurement.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class FigureTests
{
    /// <summary>
    /// Each figure of the bridge starts a broker. Those of a cluster and of messages that are not packed run the same code as
    /// these, with another number.
    /// </summary>
    private const string OfBridge = "bridge_forward,bridge_fetch,bridge_latency_p50,bridge_lone_p50,bridge_lone_p99";

    /// <summary>`pack_get_cold` needs root, and drops the caches of the whole machine: not in a test.</summary>
    private const string OfPacks = "pack_put,pack_get_warm,pack_get_read,pack_index_bytes,pack_open,pack_get_many";

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(15);

    private static readonly string[] s_fields = ["name", "value", "unit", "raw", "ratio", "min", "max"];

    [Theory]
    [InlineData("queues", "queues --messages 20000")]
    [InlineData("cold", "queues --messages 20000 --cold")]
    [InlineData("peers", "peers --messages 2000")]
    [InlineData("files", "files --bytes 300000")]
    [InlineData("packs", "packs --bytes 300000", OfPacks)]
    [InlineData("bridge", "bridge --bytes 65536", OfBridge)]
    [InlineData("groups", "groups --messages 20000")]
    [InlineData("interop", "interop --messages 20000")]
    public void Group_TinyInput_WritesEveryFigureAndLeavesNoFiles(string results, string command, string? only = null)
    {
        Assert.SkipWhen(results == "bridge" && BrokerCluster.Obstacle is not null, BrokerCluster.Obstacle ?? "");
        Assert.SkipUnless(results != "cold" || OperatingSystem.IsLinux(), "The cache is dropped on Linux only.");
        Assert.SkipUnless(
            results != "interop" || (InteropTools.Has("gcc") && Directory.Exists("/usr/lib/python3/dist-packages/numpy")),
            "gcc or python3-numpy is not installed");
        (string Name, string Unit, bool HasRaw)[] promised =
        [
            .. from figure in BenchResults.Of(Repository.PathOf($"bench/figures/{results}.json"))
               let name = figure.GetProperty("name").GetString()!
               where only is null || only.Split(',').Contains(name)
               where name != "read_seq_cold" || OperatingSystem.IsLinux()
               select (name, figure.GetProperty("unit").GetString()!, figure.GetProperty("raw").GetDouble() > 0),
        ];
        using TempStore folder = new(createStoreFolder: true);

        Dictionary<string, JsonElement> figures = Run(
            folder, [.. command.Split(' '), .. only is null ? Array.Empty<string>() : ["--only", only]], out string[] lines);

        // The pages show some of the files' figures only.
        Assert.Equal(
            promised.Select(each => each.Name).Order(),
            figures.Keys.Where(name => results != "files" || promised.Any(each => each.Name == name)).Order());
        Assert.All(promised, each => AssertFigure(each.Name, each.Unit, each.HasRaw, figures[each.Name]));
        string[] percentiles = ["roundtrip_p50", "roundtrip_p99", "roundtrip_p999"];
        double[] roundTrips = [.. percentiles.Where(figures.ContainsKey).Select(name => Value(figures[name]))];
        Assert.Equal(roundTrips.Order(), roundTrips);
        AssertFlushesApart(results, lines);
        if (results == "files")
            AssertTablesOfFiles(lines);
    }

    [Fact]
    public void DotnetIo_Quick_ShowsEveryTableAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);

        Dictionary<string, JsonElement> rows = Run(folder, ["dotnet-io"], out string[] lines);

        string[] always =
        [
            "open_file_openhandle", "read_filestream_default_buffer_4_kib", "copy_file_copy", "lines_file_readlinesasync",
            "write_file_writealltext_made_before", "write_memorymappedfile_copied_by_64_kib",
            "write_randomaccess_write_16_times_4_kib_in_a_list", "write_flushed_randomaccess_flushtodisk_which_is_fsync",
        ];
        Assert.All(always, name => Assert.Contains(name, rows.Keys));
        if (OperatingSystem.IsLinux())
        {
            Assert.Contains("flush_each_new_write_fdatasync", rows.Keys);
            AssertRowOrNote("write_flushed_open_2_o_direct_o_sync", "O_DIRECT | O_SYNC is left out");
            AssertRowOrNote("flush_each_old_o_direct_o_sync", "old, O_DIRECT | O_SYNC is left out");
            AssertRowOrNote("copy_copy_file_range_2", "copy_file_range(2) is left out");
            AssertRowOrNote("copy_ioctl_ficlone", "ioctl FICLONE is left out");
            AssertRowOrNote("ext4_journal_new_write_fdatasync", "The table is left out");
            AssertRowOrNote("ext4_no_journal_new_write_fdatasync", "The table is left out");
        }

        Assert.All(
            ["small", "random", "write", "read_async", "write_async"],
            table => Assert.Contains(rows.Keys, name => name.StartsWith(table + "_", StringComparison.Ordinal)));
        Assert.All(rows.Values, row => Assert.True(Value(row) > 0 && row.GetProperty("raw").GetDouble() > 0));
        Assert.Contains(lines, line => line.StartsWith("Copying a file", StringComparison.Ordinal));
        Assert.Contains(lines, line => line.StartsWith("* ", StringComparison.Ordinal));

        // What this machine, or the rights of who runs it, does not offer is said in its place.
        void AssertRowOrNote(string row, string note) => Assert.True(
            rows.ContainsKey(row) || lines.Any(line => line.StartsWith(note, StringComparison.Ordinal)),
            $"Neither the row {row} nor a note that it is left out.");
    }

    private static Dictionary<string, JsonElement> Run(TempStore folder, string[] command, out string[] lines)
    {
        string json = Path.Combine(folder.Root, "figures.json");
        using ChildProcess bench = ChildProcess.StartBench(
        [
            .. command, "--quick", "--repetitions", "1", "--no-warm-up", "--dir", folder.StorePath, "--json", json,
        ]);
        bench.ExpectExit(0, s_deadline);
        Assert.Empty(bench.ErrorText);
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
        lines = [.. bench.Lines];
        return BenchResults.Of(json).ToDictionary(figure => figure.GetProperty("name").GetString()!);
    }

    private static double Value(JsonElement figure) => figure.GetProperty("value").GetDouble();

    private static void AssertFigure(string name, string unit, bool hasRaw, JsonElement figure)
    {
        Assert.Equal(s_fields, figure.EnumerateObject().Select(field => field.Name));
        double value = Value(figure);
        double raw = figure.GetProperty("raw").GetDouble();
        Assert.Equal(unit, figure.GetProperty("unit").GetString());
        Assert.InRange(value, figure.GetProperty("min").GetDouble(), figure.GetProperty("max").GetDouble());
        // One is a difference of two times: at this size noise decides its sign.
        Assert.True(
            name is "idle_cpu" or "alloc_per_message" ? value >= 0 : value > 0 || name == "metrics_overhead",
            $"{name}: value={value}");

        // A bare futex is known on Linux only, and a process that waits on semaphores may use no time at all for three seconds.
        Assert.True(hasRaw && name is not ("wake_p50" or "idle_cpu") ? raw > 0 : raw >= 0, $"{name}: raw={raw}");
        if (raw > 0)
            Assert.Equal(1, figure.GetProperty("ratio").GetDouble() / (value / raw), 1e-3);
    }

    /// <summary>What waits for the disk shares no column with what does not.</summary>
    private static void AssertFlushesApart(string results, string[] lines)
    {
        (string[] Free, string[] Flushed) names = results switch
        {
            "peers" => (["append_sqlite ", "pass_sqlite "], ["durable_1_sqlite ", "durable_64_fasterlog "]),
            "files" => (["lines_4_new "], ["lines_4_default "]),
            _ => ([], []),
        };
        int heading = Array.FindIndex(lines, line => line.StartsWith("With flushes to the disk", StringComparison.Ordinal));
        Assert.All(names.Free, name => Assert.InRange(LineOf(name), 0, heading));
        Assert.All(names.Flushed, name => Assert.InRange(LineOf(name), heading + 1, lines.Length));

        int LineOf(string name) => Array.FindIndex(lines, line => line.StartsWith(name, StringComparison.Ordinal));
    }

    private static void AssertTablesOfFiles(string[] lines)
    {
        Assert.Contains(lines, line =>
            line.StartsWith("lines_1, ", StringComparison.Ordinal)
            && line.Contains("lines_4: over blocks that were written before, without a flush", StringComparison.Ordinal));
        string[] syncs = ["none", "at the end", "each write"];
        Assert.Equal(
            syncs.Select(sync => $"Flush: {sync}"),
            lines.Where(line => line.StartsWith("Flush: ", StringComparison.Ordinal)));

        string[] rows = ["none", "reused", .. OperatingSystem.IsLinux() ? new[] { "fallocate", "zero range" } : []];
        Assert.All(rows, row => Assert.Equal(
            row == "none" ? 2 * syncs.Length : syncs.Length,
            lines.Count(line => line.StartsWith(row + "  ", StringComparison.Ordinal))));
    }
}

using System.Diagnostics;
using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// The bench with tiny input, so that no figure stops working unseen. The values mean nothing at this size, and none is asserted
/// beyond what holds for any honest measurement.
/// </summary>
[Trait("Category", "Slow")]
public sealed class BenchTests
{
    private const string Messages = "20000";

    private static readonly string[] s_tiny = ["--quick", "--messages", Messages, "--repetitions", "1", "--no-warm-up"];

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(15);

    private static readonly string[] s_figureFields = ["name", "value", "unit", "raw", "ratio", "min", "max"];

    private static readonly string[] s_compilerFlags =
        ["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-pthread"];

    /// <summary>The figures that are promised, with their units; the bench may have more.</summary>
    private static readonly Dictionary<string, string> s_units = new()
    {
        ["append_exclusive"] = "ns",
        ["append_exclusive_nochecksum"] = "ns",
        ["append_shared"] = "ns",
        ["append_shared_2proc"] = "msg/s",
        ["append_batch"] = "ns",
        ["read_verify"] = "ns",
        ["read_noverify"] = "ns",
        ["read_batch"] = "ns",
        ["messages_append"] = "ns",
        ["messages_read"] = "ns",
        ["proc_to_proc"] = "msg/s",
        ["proc_to_proc_cold"] = "msg/s",
        ["backpressure_pair"] = "msg/s",
        ["roundtrip_p50"] = "us",
        ["roundtrip_p99"] = "us",
        ["roundtrip_p999"] = "us",
        ["wake_p50"] = "us",
        ["raw_fdatasync"] = "1/s",
        ["durable_1"] = "msg/s",
        ["durable_16"] = "msg/s",
        ["durable_64"] = "msg/s",
        ["durable_64_async"] = "msg/s",
        ["durable_2proc"] = "msg/s",
        ["durable_recycled"] = "msg/s",
        ["interval_append"] = "ns",
        ["append_recycled"] = "ns",
        ["append_recycled_p9999"] = "us",
        ["append_recycled_disk"] = "MiB",
        ["trim"] = "us",
        ["trim_call"] = "us",
        ["idle_cpu"] = "%",
        ["open_empty"] = "ms",
        ["open_after_kill"] = "ms",
        ["recover_1gib"] = "GB/s",
        ["open_clean_10gib"] = "ms",
        ["alloc_per_message"] = "B",
        ["async_roundtrip_p50"] = "us",
        ["channel_throughput"] = "msg/s",
        ["json_write"] = "ns",
        ["json_read"] = "ns",
        ["protobuf_write"] = "ns",
        ["protobuf_read"] = "ns",
        ["messagepack_write"] = "ns",
        ["messagepack_read"] = "ns",
        ["memorypack_write"] = "ns",
        ["memorypack_read"] = "ns",
        ["hosted_consumer"] = "ns",
        ["hosted_consumer_each"] = "ns",
        ["metrics_overhead"] = "ns",
        ["queue_info"] = "us",
        ["health_check"] = "us",
        ["meter_collect"] = "us",
        ["append_roll"] = "ns",
        ["append_roll_p9999"] = "us",
        ["open_empty_warm"] = "ms",
        ["open_empty_process"] = "ms",
    };

    /// <summary>
    /// Code that is not compiled to the end is slower than the table: a gate that nothing fails guards nothing.
    /// </summary>
    [Fact]
    public void Gate_WithSlowCode_Fails()
    {
        using var folder = new TempStore();

        ToolRun run = ToolRun.OfBench(
            ["gate", "--only", "append_exclusive", "--no-warm-up", "--repetitions", "1", "--dir", folder.StorePath]).Expect(1);

        Assert.Matches("append_exclusive .* SLOWER", run.Text);
    }

    [Fact]
    public void Bench_TinyInput_WritesEveryFigureAndLeavesNoFiles()
    {
        using TempStore folder = new(createStoreFolder: true);

        Dictionary<string, JsonElement> figures = Run(folder, s_tiny);

        Assert.Equal(s_units.Keys.Order(), figures.Keys.Order());
        foreach ((string name, string unit) in s_units)
            AssertFigure(name, unit, figures[name]);
        Assert.True(Value(figures, "roundtrip_p50") <= Value(figures, "roundtrip_p99"));
        Assert.True(Value(figures, "roundtrip_p99") <= Value(figures, "roundtrip_p999"));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void Bench_Cold_MeasuresAppendingAndReading()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The cache is dropped on Linux only.");
        using TempStore folder = new(createStoreFolder: true);

        Dictionary<string, JsonElement> figures = Run(folder, [.. s_tiny, "--cold"]);

        Assert.Equal(5, figures.Keys.Count(name => name.Contains("append", StringComparison.Ordinal)));
        Assert.Equal(4, figures.Keys.Count(name => name.Contains("read", StringComparison.Ordinal)));
        Assert.All(figures, figure => AssertFigure(figure.Key, "ns", figure.Value));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void Headline_TinyInput_WritesTheTableOfTheReadme()
    {
        using TempStore folder = new(createStoreFolder: true);
        string json = Path.Combine(folder.Root, "headline.json");

        ToolRun run = ToolRun.OfBench(["headline", "--dir", folder.StorePath, "--json", json, .. s_tiny]).Expect(0);

        string[] jobs =
        [
            "WriteStruct", "WriteJson", "WriteProtobuf", "WriteMessagePack", "WriteMemoryPack",
            "ReadStruct", "ReadJson", "ReadProtobuf", "ReadMessagePack", "ReadMemoryPack",
        ];
        JsonElement report = JsonElement.Parse(File.ReadAllText(json));
        Assert.Equal(string.Join(' ', ["headline", .. s_tiny]), report.GetProperty("command").GetString());
        string[] head = ["date", "commit", "run", "machine", "kernel", "fileSystem", "runtime"];
        Assert.All(head, name => Assert.NotEmpty(report.GetProperty(name).GetString()!));
        JsonElement[] figures = [.. report.GetProperty("results").EnumerateArray()];
        Assert.Equal(
            jobs.SelectMany(job => new[] { $"{job} ns", $"{job}Bytes B" }),
            figures.Select(figure => $"{figure.GetProperty("name")} {figure.GetProperty("unit")}"));
        Assert.All(
            figures.Where(figure => figure.GetProperty("unit").GetString() == "ns"),
            figure => Assert.True(figure.GetProperty("value").GetDouble() > 0));
        string page = File.ReadAllText(Repository.PathOf("docs/BENCHMARKS.md"));
        Assert.All(jobs, job =>
        {
            Assert.Contains($"| `{job}` | ", run.Text, StringComparison.Ordinal);
            Assert.Contains($"| `{job}` | ", page, StringComparison.Ordinal);
        });
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void Bench_OnlySomeNames_MeasuresThese()
    {
        using TempStore folder = new(createStoreFolder: true);

        ToolRun run = ToolRun.OfBench(
            "--dir", folder.StorePath, "--quick", "--messages", Messages, "--only", "roundtrip_p99, alloc_per_message",
            "--output", "json");

        run.Expect(0);
        Assert.Equal(
            ["alloc_per_message", "roundtrip_p99"],
            JsonElement.Parse(run.Text).EnumerateArray().Select(figure => figure.GetProperty("name").GetString()).Order());
    }

    [Theory]
    [InlineData("append_20gb_p9999", "us")]
    [InlineData("append_sustained", "ns")]
    public void Bench_FigureOnDemand_IsMeasuredWhenItIsNamed(string name, string unit)
    {
        using TempStore folder = new(createStoreFolder: true);

        Dictionary<string, JsonElement> figures =
            Run(folder, [.. s_tiny, "--only", name]);

        AssertFigure(name, unit, Assert.Single(figures).Value);
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Theory]
    [InlineData("--only", "append_exclusive,no_such_figure")]
    [InlineData("--only", ",")]
    [InlineData("--messages", "0")]
    [InlineData("--messages", "many")]
    [InlineData("--repetitions", "0")]
    public void Bench_WrongArguments_ExitsWithUsageAndLeavesNoFiles(string option, string value)
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartBench("--dir", folder.StorePath, option, value);

        bench.ExpectExit(2);

        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    /// <summary>A figure whose process fails must fail the run: this one has to work in a directory that is not there.</summary>
    [Fact]
    public void BenchChild_DirectoryMissing_ExitsWithFailure()
    {
        using TempStore folder = new();
        string directory = folder.PathOf("missing");
        string task = $$"""{"role":"append_exclusive","directory":"{{directory}}","messages":1000,"repetitions":1}""";
        using ChildProcess child = ChildProcess.StartBench("child", task);

        child.ExpectExit(1);

        Assert.NotEmpty(child.ErrorText);
    }

    /// <summary>Two processes that spin for each other, and gigabytes of files: both must go when the run is ended.</summary>
    [Fact]
    public void Bench_Terminated_LeavesNoFilesAndExitsAsTerminated()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Signals are sent on Linux only.");
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartBench("--dir", folder.StorePath, "--only", "roundtrip_p50");
        Eventually.True(
            () => Directory.EnumerateFiles(folder.StorePath, "raw-ping", SearchOption.AllDirectories).Any(),
            "both processes of the figure are at work");

        bench.Signal(ChildProcess.SigTerm);

        bench.ExpectExit(143);
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Fact]
    public void Limits_TinyInput_ComparesWithTheCProgram()
    {
        SkipWithoutCompiler();
        using TempStore folder = new(createStoreFolder: true);

        Dictionary<string, JsonElement> figures =
            Run(folder, [.. s_tiny, "--limits", "--only", "copy,read,fetch_add_1,fdatasync_p50"]);

        Assert.Equal(["copy", "fdatasync_p50", "fetch_add_1", "read"], figures.Keys.Order());
        Assert.All(figures, figure => Assert.True(figure.Value.GetProperty("raw").GetDouble() > 0, figure.Key));
    }

    [Fact]
    public void LimitsProgram_TinyInput_CompilesWithoutWarningsAndPrintsEveryLoop()
    {
        SkipWithoutCompiler();
        using TempStore folder = new(createStoreFolder: true);
        string program = Path.Combine(folder.Root, "limits");
        Assert.Equal(
            "",
            Output("cc", [.. s_compilerFlags, "-o", program, Repository.PathOf("bench/limits.c")]));

        string[] lines = Output(program, "--messages", Messages, "--repetitions", "2", "--dir", folder.StorePath)
            .Split('\n', StringSplitOptions.RemoveEmptyEntries);

        string[] expected =
        [
            "copy", "copy_still", "copy_words", "read", "fetch_add_1", "fetch_add_2", "pipe", "pipe_cold", "roundtrip_p50",
            "roundtrip_p99", "roundtrip_p999", "wake_back_p50", "fdatasync_p50", "append_sustained", "append_recycled",
        ];
        JsonElement[] values = [.. lines.Select(line => JsonElement.Parse(line))];
        Assert.Equal(expected, values.Select(value => value.GetProperty("name").GetString()));
        Assert.All(values, value => Assert.True(value.GetProperty("value").GetDouble() > 0));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    private static Dictionary<string, JsonElement> Run(TempStore folder, params string[] arguments)
    {
        string json = Path.Combine(folder.Root, "figures.json");
        using ChildProcess bench =
            ChildProcess.StartBench(["--dir", folder.StorePath, "--json", json, .. arguments]);
        bench.ExpectExit(0, s_deadline);
        return BenchResults.Of(json).ToDictionary(figure => figure.GetProperty("name").GetString()!);
    }

    private static void AssertFigure(string name, string unit, JsonElement figure)
    {
        Assert.Equal(s_figureFields, figure.EnumerateObject().Select(field => field.Name));
        double value = figure.GetProperty("value").GetDouble();
        double raw = figure.GetProperty("raw").GetDouble();
        Assert.Equal(unit, figure.GetProperty("unit").GetString());
        Assert.InRange(value, figure.GetProperty("min").GetDouble(), figure.GetProperty("max").GetDouble());
        // One is a difference of two times: at this size noise decides its sign.
        Assert.True(
            name is "idle_cpu" or "alloc_per_message" ? value >= 0 : value > 0 || name == "metrics_overhead",
            $"{name}: value={value}");

        // The raw loop allocates nothing, an idle process may use nothing, and a bare futex is known on Linux only.
        Assert.True(name is "idle_cpu" or "alloc_per_message" or "wake_p50" ? raw >= 0 : raw > 0, $"{name}: raw={raw}");
        if (raw > 0)
            Assert.Equal(1, figure.GetProperty("ratio").GetDouble() / (value / raw), 1e-3);
    }

    private static double Value(Dictionary<string, JsonElement> figures, string name) =>
        figures[name].GetProperty("value").GetDouble();

    private static void SkipWithoutCompiler()
    {
        string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
        bool hasCompiler = OperatingSystem.IsLinux() && folders.Any(folder => File.Exists(Path.Combine(folder, "cc")));
        Assert.SkipUnless(hasCompiler, "No C compiler.");
    }

    private static string Output(string program, params string[] arguments)
    {
        ProcessStartInfo start = new(program, arguments) { RedirectStandardOutput = true, RedirectStandardError = true };
        using Process process = Process.Start(start)!;
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        Assert.True(process.ExitCode == 0, $"{program}: exit code {process.ExitCode}, {errors.Result}");
        return output;
    }
}

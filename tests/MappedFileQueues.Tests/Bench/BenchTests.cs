using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Bench;

/// <summary>The commands and options of the bench. What it measures is in <see cref="FigureTests"/>.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class BenchTests
{
    private const string Messages = "20000";

    private static readonly string[] s_tiny = ["--quick", "--messages", Messages, "--repetitions", "1", "--no-warm-up"];

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(15);

    private static readonly string[] s_compilerFlags =
        ["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-pthread"];

    /// <summary>
    /// Code that is not optimized is ten times slower than the table, however busy the machine is: a gate that nothing fails
    /// guards nothing.
    /// </summary>
    [Fact]
    public void Gate_WithSlowCode_Fails()
    {
        using var folder = new TempStore();

        ProcessStartInfo bench = BuiltProgram.StartInfo(
            Repository.BenchPath,
            "gate", "--only", "append_exclusive", "--no-warm-up", "--repetitions", "3", "--dir", folder.StorePath);
        (bench.Environment["DOTNET_JITMinOpts"], bench.Environment["DOTNET_ReadyToRun"]) = ("1", "0");
        ToolRun run = ToolRun.Start(bench, []).Expect(1);

        Assert.Matches("append_exclusive .* SLOWER", run.Text);
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

    /// <summary>Two of them are measured only when they are named.</summary>
    [Fact]
    public void Bench_OnlySomeNames_MeasuresThese()
    {
        using TempStore folder = new(createStoreFolder: true);
        Dictionary<string, string> units = new()
        {
            ["alloc_per_message"] = "B",
            ["append_20gb_p9999"] = "us",
            ["append_sustained"] = "ns",
            ["roundtrip_p99"] = "us",
        };

        Dictionary<string, JsonElement> figures = Run(folder, [.. s_tiny, "--only", string.Join(", ", units.Keys)]);

        Assert.Equal(units.Keys.Order(), figures.Keys.Order());
        Assert.All(units, unit => Assert.Equal(unit.Value, figures[unit.Key].GetProperty("unit").GetString()));
        Assert.Empty(Directory.EnumerateFileSystemEntries(folder.StorePath));
    }

    [Theory]
    [InlineData("--only", "append_exclusive,no_such_figure")]
    [InlineData("--only", ",")]
    [InlineData("--messages", "0")]
    [InlineData("--messages", "many")]
    [InlineData("--repetitions", "0")]
    [InlineData("--only", "append_exclusive", "files")]
    [InlineData("--bytes", "1", "files")]
    [InlineData("--only", "nothing", "dotnet-io")]
    public void Bench_WrongArguments_ExitsWithUsageAndLeavesNoFiles(string option, string value, string group = "queues")
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess bench = ChildProcess.StartBench(group, "--dir", folder.StorePath, option, value);

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
    public void BenchPacks_LongPut_PassesTheEndOfAVolumeAndShowsTheLongest()
    {
        using TempStore folder = new(createStoreFolder: true);

        ToolRun run = ToolRun.OfBench(
        [
            "packs", "--quick", "--bytes", "300000", "--repetitions", "1", "--no-warm-up",
            "--only", "pack_put_long,pack_put_long_max", "--dir", folder.StorePath, "--output", "json",
        ]).Expect(0);

        Dictionary<string, JsonElement> figures = JsonElement.Parse(run.Text).EnumerateArray()
            .ToDictionary(figure => figure.GetProperty("name").GetString()!);
        Assert.Equal("us", figures["pack_put_long_max"].GetProperty("unit").GetString());
        Assert.InRange(figures["pack_put_long"].GetProperty("raw").GetDouble(), 1, double.MaxValue);
        Assert.True(
            figures["pack_put_long_max"].GetProperty("value").GetDouble() * 1e3
                >= figures["pack_put_long"].GetProperty("value").GetDouble());
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

using System.Globalization;
using System.Text.Json;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Limits;

/// <summary>bench/limits.c, compiled into the run's directory.</summary>
internal sealed class LimitsProgram
{
    private readonly BenchRun _run;
    private readonly string _path;

    private LimitsProgram(BenchRun run, string path)
    {
        _run = run;
        _path = path;
    }

    /// <summary>Compiles it.</summary>
    public static LimitsProgram Compile(BenchRun run)
    {
        string output = Path.Combine(run.Directory, "limits");
        CCompiler.Compile(output, ["-std=gnu11", "-O3", "-march=native", "-pthread"], ["bench/limits.c"]);
        return new LimitsProgram(run, output);
    }

    /// <summary>Runs it for these names and returns the value that it prints for each.</summary>
    public IReadOnlyDictionary<string, double> Measure(IEnumerable<string> names)
    {
        string output = OtherProgram.Run(_path, [
            "--messages", _run.Settings.Messages.ToString(CultureInfo.InvariantCulture),
            "--repetitions", _run.Settings.Repetitions.ToString(CultureInfo.InvariantCulture),
            "--dir", _run.Directory,
            "--only", string.Join(',', names),
        ]);
        Dictionary<string, double> values = [];
        foreach (string line in output.Split('\n', StringSplitOptions.RemoveEmptyEntries))
        {
            using JsonDocument document = JsonDocument.Parse(line);
            JsonElement root = document.RootElement;
            values.Add(root.GetProperty("name").GetString()!, root.GetProperty("value").GetDouble());
        }

        return values;
    }
}

using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;
using System.Text.Json;

namespace MappedFileQueues.Bench.Limits;

/// <summary>bench/limits.c, compiled into the run's directory.</summary>
internal sealed class LimitsProgram
{
    private const string SourcePath = "bench/limits.c";

    private static readonly string[] s_compilers = ["cc", "gcc", "clang"];
    private static readonly string[] s_flags = ["-std=gnu11", "-O3", "-march=native", "-pthread"];

    private readonly BenchRun _run;
    private readonly string _path;

    private LimitsProgram(BenchRun run, string path)
    {
        _run = run;
        _path = path;
    }

    /// <summary>Compiles it with the first compiler that is there.</summary>
    public static LimitsProgram Compile(BenchRun run)
    {
        string output = Path.Combine(run.Directory, "limits");
        string source = FindSource();
        foreach (string compiler in s_compilers)
        {
            try
            {
                Start(compiler, [.. s_flags, "-o", output, source]);
                return new LimitsProgram(run, output);
            }
            catch (Win32Exception)
            {
                // Not installed; the next one may be.
            }
        }

        throw new ToolException(
            $"No C compiler was found for {SourcePath}: tried={string.Join(' ', s_compilers)}. Install one of them.");
    }

    /// <summary>Runs it for these names and returns the value that it prints for each.</summary>
    public IReadOnlyDictionary<string, double> Measure(IEnumerable<string> names)
    {
        string output = Start(_path, [
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

    private static string Start(string program, IEnumerable<string> arguments)
    {
        ProcessStartInfo start = new(program, arguments) { RedirectStandardOutput = true, RedirectStandardError = true };
        using Process process = Process.Start(start) ?? throw new ToolException($"A program did not start: program={program}.");
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        if (process.ExitCode != 0)
            throw new ToolException($"A program failed: program={program}, exit code={process.ExitCode}. {errors.Result.Trim()}");
        return output;
    }

    private static string FindSource()
    {
        foreach (string start in new[] { Environment.CurrentDirectory, AppContext.BaseDirectory })
        {
            for (DirectoryInfo? folder = new(start); folder is not null; folder = folder.Parent)
            {
                string path = Path.Combine(folder.FullName, SourcePath);
                if (File.Exists(path))
                    return path;
            }
        }

        throw new ToolException($"The C program was not found: path={SourcePath}. Run it inside a checkout.");
    }
}

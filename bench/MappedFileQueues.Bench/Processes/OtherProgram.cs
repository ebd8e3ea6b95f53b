using System.Diagnostics;

namespace MappedFileQueues.Bench.Processes;

/// <summary>Programs and sources of other languages that figures need: compilers, interpreters, files of the checkout.</summary>
internal static class OtherProgram
{
    /// <summary>Runs a program to its end, and returns what it wrote.</summary>
    /// <exception cref="ToolException">It failed.</exception>
    /// <exception cref="System.ComponentModel.Win32Exception">It is not installed.</exception>
    public static string Run(
        string program, IEnumerable<string> arguments, IReadOnlyDictionary<string, string>? variables = null)
    {
        ProcessStartInfo start = new(program, arguments) { RedirectStandardOutput = true, RedirectStandardError = true };
        foreach ((string name, string value) in variables ?? new Dictionary<string, string>())
            start.Environment[name] = value;
        using Process process = Process.Start(start) ?? throw new ToolException($"A program did not start: program={program}.");
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        if (process.ExitCode != 0)
            throw new ToolException($"A program failed: program={program}, exit code={process.ExitCode}. {errors.Result.Trim()}");
        return output;
    }

    /// <summary>A file of the checkout in which this runs, or from which it was built.</summary>
    /// <exception cref="ToolException">It is not there.</exception>
    public static string FindSource(string name)
    {
        foreach (string start in new[] { Environment.CurrentDirectory, AppContext.BaseDirectory })
        {
            for (DirectoryInfo? folder = new(start); folder is not null; folder = folder.Parent)
            {
                string path = Path.Combine(folder.FullName, name);
                if (Path.Exists(path))
                    return path;
            }
        }

        throw new ToolException($"A source was not found: path={name}. Run it inside a checkout.");
    }
}

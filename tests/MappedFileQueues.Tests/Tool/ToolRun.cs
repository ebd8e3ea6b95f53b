using System.Diagnostics;
using System.Text;
using MappedFileQueues.Tool;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tests.Tool;

/// <summary>One finished run of the command line tool: its exit code and what it wrote, to the byte.</summary>
/// <param name="ExitCode">The exit code.</param>
/// <param name="Output">Standard output.</param>
/// <param name="Error">Standard error.</param>
internal sealed record ToolRun(int ExitCode, byte[] Output, string Error)
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    /// <summary>Standard error; its lines, and those of <see cref="Text"/>, end as on all systems but Windows.</summary>
    public string Error { get; } = WithLineFeeds(Error);

    /// <summary>Standard output as text.</summary>
    public string Text => WithLineFeeds(Encoding.UTF8.GetString(Output));

    /// <summary>The lines of standard output.</summary>
    public string[] Lines => Text.Split('\n', StringSplitOptions.RemoveEmptyEntries);

    /// <summary>This process as an error names it among those that hold a lock; only Linux tells who does.</summary>
    public static string ThisHolder => OperatingSystem.IsLinux() ? $"{Environment.ProcessId}" : "holder=unknown";

    /// <summary>Runs a command of the tool to its end, in this process.</summary>
    public static ToolRun Of(params IEnumerable<string> arguments) => WithInput([], arguments);

    /// <summary>Runs a command of the tool to its end, in this process, with bytes on its standard input.</summary>
    public static ToolRun WithInput(byte[] input, params IEnumerable<string> arguments)
    {
        using KeptStream output = new();
        using StringWriter error = new();
        string[] given = [.. arguments];
        // The streams follow a thread's work; a thread of its own can also be given up on.
        Task<int> run = Task.Factory.StartNew(
            () =>
            {
                ToolConsole.Redirect(new MemoryStream(input), output, error);
                return ToolProgram.Run(given, MappedFileQueues.Tool.Program.CreateRoot);
            },
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        if (Task.WaitAny([run], s_deadline) < 0)
            Assert.Fail($"Did not end within {s_deadline}: {string.Join(' ', given)}\nerrors:\n{error}");
        return new ToolRun(run.GetAwaiter().GetResult(), output.ToArray(), error.ToString());
    }

    /// <summary>Runs the tool to its end as a process.</summary>
    public static ToolRun OfProcess(params IEnumerable<string> arguments) => In(Environment.CurrentDirectory, [], arguments);

    /// <summary>Runs the project's benchmark to its end.</summary>
    public static ToolRun OfBench(params IEnumerable<string> arguments) =>
        Start(BuiltProgram.StartInfo(Repository.BenchPath, arguments), []);

    /// <summary>Runs the tool to its end as a process, in a folder.</summary>
    public static ToolRun In(string folder, byte[] input, params IEnumerable<string> arguments)
    {
        ProcessStartInfo start = BuiltProgram.StartInfo(Repository.ToolPath, arguments);
        start.WorkingDirectory = folder;
        return Start(start, input);
    }

    /// <summary>Runs any program to its end; how the tool is started matters to some tests.</summary>
    public static ToolRun Start(ProcessStartInfo start, byte[] input)
    {
        start.RedirectStandardInput = true;
        start.RedirectStandardOutput = true;
        start.RedirectStandardError = true;
        ChildProcess.PrepareRuntime(start);
        using Process process = Process.Start(start)!;
        using MemoryStream output = new();
        Task copying = process.StandardOutput.BaseStream.CopyToAsync(output);
        Task<string> error = process.StandardError.ReadToEndAsync();
        try
        {
            process.StandardInput.BaseStream.Write(input);
            process.StandardInput.Close();
        }
        catch (IOException)
        {
            // It ended without reading all of its input, as it does when the arguments are wrong.
        }

        if (!process.WaitForExit(s_deadline))
        {
            process.Kill(entireProcessTree: true);
            Assert.Fail($"Did not end within {s_deadline}: {string.Join(' ', start.ArgumentList)}\nerrors:\n"
                + error.GetAwaiter().GetResult());
        }

        copying.GetAwaiter().GetResult();
        return new ToolRun(process.ExitCode, output.ToArray(), error.GetAwaiter().GetResult());
    }

    /// <summary>Fails, and shows what it wrote, unless it ended with this exit code.</summary>
    public ToolRun Expect(int exitCode)
    {
        Assert.True(ExitCode == exitCode, $"Exit code {ExitCode} instead of {exitCode}.\noutput:\n{Text}\nerrors:\n{Error}");
        return this;
    }

    /// <summary>Fails unless it ended with exit code 1 and one line on standard error that holds these words.</summary>
    public void ExpectError(params IEnumerable<string> words)
    {
        Expect(1);
        string line = Assert.Single(Error.Split('\n', StringSplitOptions.RemoveEmptyEntries));
        Assert.StartsWith("mfq: ", line, StringComparison.Ordinal);
        foreach (string word in words)
            Assert.Contains(word, line, StringComparison.Ordinal);
    }

    private static string WithLineFeeds(string text) => text.Replace(Environment.NewLine, "\n", StringComparison.Ordinal);

    /// <summary>A command closes standard output; what it wrote stays.</summary>
    private sealed class KeptStream : MemoryStream
    {
        protected override void Dispose(bool disposing)
        {
        }
    }
}

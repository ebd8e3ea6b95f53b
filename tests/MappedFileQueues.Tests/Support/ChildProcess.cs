using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// A child process that runs a built program, can be stopped and killed at any moment, and whose output lines can be waited for.
/// It runs without core dumps: the tests kill hundreds of them.
/// </summary>
internal sealed partial class ChildProcess : IDisposable
{
    public const int SigKill = 9;
    public const int SigTerm = 15;

    /// <summary>Linux's numbers; macOS has others, and the tests that send these run on Linux only.</summary>
    public const int SigCont = 18;
    public const int SigStop = 19;

    private const string LinuxScript = "ulimit -c 0; exec env --default-signal=INT \"$@\"";

    private readonly Process _process;
    private readonly string _description;
    private readonly object _gate = new();
    private readonly List<string> _lines = [];
    private readonly List<string> _errorLines = [];
    private bool _outputEnded;

    private ChildProcess(Process process, string description)
    {
        _process = process;
        _description = description;
        process.OutputDataReceived += (_, line) => AddLine(line.Data);
        process.ErrorDataReceived += (_, line) => AddErrorLine(line.Data);
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
    }

    /// <summary>What the shell and .NET report for a process that SIGKILL ended; on Windows, what .NET's Kill leaves.</summary>
    public static int ExitCodeKilled => OperatingSystem.IsWindows() ? -1 : 128 + SigKill;

    /// <summary>The process id: that of the program itself, since the shell replaces itself by it.</summary>
    public int Id => _process.Id;

    public bool HasExited => _process.HasExited;

    /// <summary>Where lines can be sent to the child.</summary>
    public TextWriter Input => _process.StandardInput;

    /// <summary>The lines that the child has written so far.</summary>
    public IReadOnlyList<string> Lines
    {
        get
        {
            lock (_gate)
                return [.. _lines];
        }
    }

    /// <summary>What the child has written to standard error so far.</summary>
    public string ErrorText
    {
        get
        {
            lock (_gate)
                return string.Join('\n', _errorLines);
        }
    }

    /// <summary>Starts the tests' own child program with a verb and its arguments.</summary>
    public static ChildProcess StartPeer(params IEnumerable<string> arguments) => Start(Repository.TestPeerPath, arguments);

    /// <summary>Starts the tests' own child program with the rights of nobody; skips the test where that is impossible.</summary>
    public static ChildProcess StartPeerAsNobody(params IEnumerable<string> arguments)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving up rights needs root on Linux.");
        string[] rights = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        ProcessStartInfo start = new("setpriv", [.. rights, "dotnet", "exec", Repository.TestPeerPath, .. arguments]);
        return Start(start, new Dictionary<string, string> { ["HOME"] = "/nonexistent" });
    }

    /// <summary>Starts the command line tool.</summary>
    public static ChildProcess StartTool(params IEnumerable<string> arguments) => Start(Repository.ToolPath, arguments);

    /// <summary>Starts the project's benchmark.</summary>
    public static ChildProcess StartBench(params IEnumerable<string> arguments) => Start(Repository.BenchPath, arguments);

    /// <summary>
    /// Starts a built dll. Environment variables are added to those of this process. What a shell starts in the background
    /// inherits that Ctrl-C is ignored, and a child that is interrupted would not notice: a suite that ran so failed.
    /// </summary>
    public static ChildProcess Start(
        string programPath, IEnumerable<string> arguments, IReadOnlyDictionary<string, string>? environment = null)
    {
        ProcessStartInfo start = BuiltProgram.StartInfo(programPath, arguments);
        if (OperatingSystem.IsLinux())
            start = new ProcessStartInfo("bash", ["-c", LinuxScript, "bash", start.FileName, .. start.ArgumentList]);
        return Start(start, environment);
    }

    /// <summary>Starts any program, for those tests that wrap the child in a tracer or take its rights away.</summary>
    public static ChildProcess Start(ProcessStartInfo start, IReadOnlyDictionary<string, string>? environment = null)
    {
        start.RedirectStandardInput = true;
        start.RedirectStandardOutput = true;
        start.RedirectStandardError = true;
        start.UseShellExecute = false;
        PrepareRuntime(start);
        foreach ((string name, string value) in environment ?? new Dictionary<string, string>())
            start.Environment[name] = value;
        return new ChildProcess(Process.Start(start)!, string.Join(' ', start.ArgumentList));
    }

    /// <summary>What every child of .NET gets: the tests start thousands, each of which lives for a moment.</summary>
    public static void PrepareRuntime(ProcessStartInfo start)
    {
        // A child that is killed would leave the debugger's pipes and the diagnostics socket in the temporary folder: thousands
        // of them make each new file there some 0.6 ms dearer.
        start.Environment["DOTNET_EnableDiagnostics"] = "0";
        // Each method's code is mapped twice otherwise, which is a tenth of what it takes to start.
        start.Environment["DOTNET_EnableWriteXorExecute"] = "0";
        // To compile the libraries' busy methods again, better, takes a third of a child's time, and pays off later than it
        // lives.
        // The number is hexadecimal: a second without new methods, instead of a tenth.
        start.Environment["DOTNET_TieredPGO"] = "0";
        start.Environment["DOTNET_TC_CallCountingDelayMs"] = "3E8";
    }

    /// <summary>
    /// Waits for the first line, counted from <paramref name="fromIndex"/>, that satisfies the condition, and returns it.
    /// Fails when the child's output ends first, or at the deadline, and shows what the child wrote.
    /// </summary>
    public string WaitForLine(Func<string, bool> predicate, TimeSpan? deadline = null, int fromIndex = 0)
    {
        long start = Stopwatch.GetTimestamp();
        TimeSpan limit = deadline ?? Eventually.DefaultDeadline;
        lock (_gate)
        {
            for (int index = fromIndex; ; index++)
            {
                while (index >= _lines.Count)
                {
                    TimeSpan left = limit - Stopwatch.GetElapsedTime(start);
                    if (_outputEnded || left <= TimeSpan.Zero || !Monitor.Wait(_gate, left))
                        throw Failure(_outputEnded ? "ended without the expected line" : $"wrote no such line within {limit}");
                }

                if (predicate(_lines[index]))
                    return _lines[index];
            }
        }
    }

    /// <summary>Waits for a line that equals <paramref name="line"/>.</summary>
    public void WaitForLine(string line, TimeSpan? deadline = null) => WaitForLine(candidate => candidate == line, deadline);

    /// <summary>Waits for the end of the child and of its output, and returns the exit code (137 when it was killed).</summary>
    public int WaitForExit(TimeSpan? deadline = null)
    {
        TimeSpan limit = deadline ?? Eventually.DefaultDeadline;
        if (!_process.WaitForExit(limit))
        {
            lock (_gate)
                throw Failure($"did not end within {limit}");
        }

        _process.WaitForExit();
        return _process.ExitCode;
    }

    /// <summary>Waits for the end and fails, with what the child wrote, unless the exit code is as expected.</summary>
    public void ExpectExit(int expectedCode = 0, TimeSpan? deadline = null)
    {
        int code = WaitForExit(deadline);
        if (code != expectedCode)
        {
            lock (_gate)
                throw Failure($"ended with exit code {code} instead of {expectedCode}");
        }
    }

    /// <summary>Sends a signal; returns false when the process is gone. Windows can only kill.</summary>
    public bool Signal(int signal)
    {
        if (_process.HasExited)
            return false;
        if (!OperatingSystem.IsWindows())
            return Kill(_process.Id, signal) == 0;
        Assert.SkipUnless(signal == SigKill, "Windows has no signals.");
        _process.Kill();
        return true;
    }

    /// <summary>Stops the child in its tracks, and returns once all its threads stand.</summary>
    public void Stop()
    {
        Assert.True(Signal(SigStop), $"The child was gone before it could be stopped: {_description}");
        Eventually.True(() => ThreadStates(_process.Id).All(state => state == 'T'), "every thread of the child stands");
    }

    /// <summary>Lets a stopped child continue.</summary>
    public void Continue() => Signal(SigCont);

    /// <summary>Kills the child and waits until it is gone, so that the kernel has let go of its locks.</summary>
    public void KillAndWait()
    {
        Signal(SigKill);
        WaitForExit();
    }

    /// <summary>Kills the child with all its descendants, when they still run.</summary>
    public void Dispose()
    {
        if (!_process.HasExited)
        {
            // On Windows there is no `dotnet` or shell between; a tree is found by the start times of all processes, and Wine has
            // none for one that is just beginning.
            _process.Kill(entireProcessTree: !OperatingSystem.IsWindows());
            _process.WaitForExit();
        }

        _process.Dispose();
    }

    /// <summary>The state letter of each thread, from /proc: R, S, D, T and so on.</summary>
    private static List<char> ThreadStates(int processId)
    {
        List<char> states = [];
        string tasks = string.Create(CultureInfo.InvariantCulture, $"/proc/{processId}/task");
        foreach (string task in Directory.EnumerateDirectories(tasks))
        {
            string stat;
            try
            {
                stat = File.ReadAllText(Path.Combine(task, "stat"));
            }
            catch (IOException)
            {
                // The thread ended between the listing and the look.
                continue;
            }

            // The name, in parentheses, may hold anything; the state follows the last one.
            states.Add(stat[stat.LastIndexOf(')') + 2]);
        }

        return states;
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int processId, int signal);

    private void AddLine(string? line)
    {
        lock (_gate)
        {
            if (line is null)
                _outputEnded = true;
            else
                _lines.Add(line);
            Monitor.PulseAll(_gate);
        }
    }

    private void AddErrorLine(string? line)
    {
        if (line is null)
            return;
        lock (_gate)
            _errorLines.Add(line);
    }

    /// <summary>What happened, with the output; called under the gate.</summary>
    private Xunit.Sdk.XunitException Failure(string what) => new(
        $"The child {what}: {_description}\noutput:\n{string.Join('\n', _lines.TakeLast(50))}\n"
        + $"errors:\n{string.Join('\n', _errorLines.TakeLast(50))}");
}

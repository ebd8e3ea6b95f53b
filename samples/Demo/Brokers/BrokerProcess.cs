using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using MappedFileQueues.Tool;

namespace MappedFileQueues.Demo.Brokers;

/// <summary>
/// A server process in the background that can be stopped and killed, and that never outlives this process: a shell beside it
/// waits for the end of a pipe, which the kernel closes when this process dies in any way, and then kills it.
/// </summary>
internal sealed partial class BrokerProcess : IDisposable
{
    private const int SigKill = 9;
    private const int SigCont = 18;
    private const int SigStop = 19;

    // A signal to the whole group, as of Ctrl-C or timeout, must not end the shell before it has killed the server; the server is
    // in a session of its own.
    private const string Script =
        "trap : HUP INT TERM; ulimit -c 0; log=$1; shift; setsid \"$@\" </dev/null >>\"$log\" 2>&1 & echo $!; read -r _; "
        + "kill -9 -$! 2>/dev/null; wait";

    private readonly Process _shell;
    private readonly int _processId;

    private BrokerProcess(Process shell, int processId) => (_shell, _processId) = (shell, processId);

    public bool IsRunning => Kill(_processId, 0) == 0;

    /// <summary>Starts a program with an environment of its own; its output goes to a file.</summary>
    public static BrokerProcess Start(
        string logPath, IReadOnlyDictionary<string, string> environment, params IEnumerable<string> command)
    {
        ProcessStartInfo start = new("bash", ["-c", Script, "bash", logPath, .. command])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
        };
        foreach ((string name, string value) in environment)
            start.Environment[name] = value;
        Process shell = Process.Start(start) ?? throw new ToolException("No shell could be started.");
        string first = shell.StandardOutput.ReadLine() ?? throw new ToolException("The shell ended at once.");
        return new BrokerProcess(shell, int.Parse(first, CultureInfo.InvariantCulture));
    }

    /// <summary>Stops it in its tracks.</summary>
    public void Stop() => _ = Kill(-_processId, SigStop);

    /// <summary>Lets it continue.</summary>
    public void Continue() => _ = Kill(-_processId, SigCont);

    /// <summary>Kills it with its children, and waits until it is gone.</summary>
    public void Dispose()
    {
        _ = Kill(-_processId, SigKill);
        _shell.StandardInput.Dispose();
        _shell.WaitForExit();
        _shell.Dispose();
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int processId, int signal);
}

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>A process that runs a verb of this program, to be stopped and killed.</summary>
internal sealed partial class LabChild : IDisposable
{
    public const int SigKill = 9;
    public const int SigCont = 18;
    public const int SigStop = 19;

    /// <summary>The exit code of a child that saw a promise broken; it has said which.</summary>
    public const int ExitViolation = 3;

    private static readonly ConcurrentDictionary<LabChild, bool> s_running = new();

    private readonly Process _process;
    private readonly List<string> _lines = [];

    public LabChild(IEnumerable<string> arguments, IReadOnlyDictionary<string, string>? environment = null)
    {
        string program = Environment.ProcessPath!;
        bool isHost = Path.GetFileNameWithoutExtension(program) == "dotnet";
        var start = new ProcessStartInfo(program, isHost ? [Path.Combine(AppContext.BaseDirectory,
            "MappedFileQueues.CrashLab.dll"), .. arguments] : arguments)
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        start.Environment["DOTNET_EnableDiagnostics"] = "0";
        start.Environment["DOTNET_TieredPGO"] = "0";
        foreach ((string name, string value) in environment ?? new Dictionary<string, string>())
            start.Environment[name] = value;
        _process = Process.Start(start)!;
        s_running[this] = true;
        _process.OutputDataReceived += (_, line) => Add(line.Data);
        _process.ErrorDataReceived += (_, line) => Add(line.Data);
        _process.BeginOutputReadLine();
        _process.BeginErrorReadLine();
    }

    /// <summary>Before this program gives up.</summary>
    public static void KillAll()
    {
        foreach (LabChild child in s_running.Keys)
            child.Signal(SigKill);
    }

    public int Id => _process.Id;

    public bool HasExited => _process.HasExited;

    /// <summary>137 after SIGKILL, 134 after an abort; only once it has exited.</summary>
    public int ExitCode => _process.ExitCode;

    public string Output
    {
        get
        {
            lock (_lines)
                return string.Join('\n', _lines);
        }
    }

    /// <summary>It stands still, by a signal (T) or for somebody who traces it (t).</summary>
    public bool IsStopped
    {
        get
        {
            string stat;
            try
            {
                stat = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{Id}/stat"));
            }
            catch (IOException)
            {
                return false;
            }

            return stat[(stat.LastIndexOf(')') + 2)..].StartsWith("T", StringComparison.OrdinalIgnoreCase);
        }
    }

    public void Signal(int signal) => _ = Send(Id, signal);

    /// <summary>False when it does not end in time.</summary>
    public bool WaitForExit(TimeSpan limit)
    {
        if (!_process.WaitForExit(limit))
            return false;
        _process.WaitForExit();
        return true;
    }

    public void Dispose()
    {
        s_running.TryRemove(this, out _);
        if (!_process.HasExited)
        {
            Signal(SigKill);
            _process.WaitForExit();
        }

        _process.Dispose();
    }

    private void Add(string? line)
    {
        if (line is null)
            return;
        lock (_lines)
            _lines.Add(line);
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Send(int processId, int signal);
}

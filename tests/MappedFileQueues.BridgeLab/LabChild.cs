using System.Diagnostics;
using System.Reflection;
using System.Runtime.InteropServices;

namespace MappedFileQueues.BridgeLab;

/// <summary>
/// A process of the laboratory: this program with a verb. It is killed, stopped in its tracks, and started again.
/// </summary>
internal sealed partial class LabChild(string name, params string[] arguments) : IDisposable
{
    private const int SigCont = 18;
    private const int SigStop = 19;

    private readonly Lock _lock = new();
    private readonly Queue<string> _words = new();
    private Process? _process;

    public string Name => name;

    /// <summary>What it wrote last, over all its lives.</summary>
    public string[] LastWords
    {
        get
        {
            lock (_lock)
                return [.. _words];
        }
    }

    /// <summary>The exit code of a process that has ended by itself; null while it runs.</summary>
    public int? ExitCode => _process is { HasExited: true } ended ? ended.ExitCode : null;

    public void Start()
    {
        ProcessStartInfo start = new(
            "dotnet", ["exec", Assembly.GetEntryAssembly()!.Location, .. arguments])
        {
            RedirectStandardInput = true,
            RedirectStandardError = true,
            Environment = { ["DOTNET_EnableDiagnostics"] = "0", ["DOTNET_TieredPGO"] = "0" },
        };
        _process = Process.Start(start)!;
        _process.ErrorDataReceived += (_, line) =>
        {
            lock (_lock)
            {
                if (line.Data is not null)
                    _words.Enqueue($"{DateTime.UtcNow:HH:mm:ss.fff} {name}: {line.Data}");
                if (_words.Count > 40)
                    _words.Dequeue();
            }
        };
        _process.BeginErrorReadLine();
    }

    public void Stop() => _ = Kill(_process!.Id, SigStop);

    public void Continue()
    {
        // It may have been killed while it stood.
        if (_process is { HasExited: false } process)
            _ = Kill(process.Id, SigCont);
    }

    /// <summary>Asks it to end, by the end of its input, and waits.</summary>
    public void End()
    {
        Continue();
        _process!.StandardInput.Close();
        if (!_process.WaitForExit(TimeSpan.FromMinutes(2)))
            throw new InvalidOperationException($"{name} does not end.");
    }

    public void Restart()
    {
        Dispose();
        Start();
    }

    public void Dispose()
    {
        if (_process is null)
            return;
        if (!_process.HasExited)
            _process.Kill();
        _process.WaitForExit();
        _process.Dispose();
        _process = null;
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int processId, int signal);
}

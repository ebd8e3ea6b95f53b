using System.Diagnostics;

namespace MappedFileQueues.Demo.Bridge;

/// <summary>A forwarder or fetcher process of the demo, which is killed and started again.</summary>
internal sealed class BridgeChild : IDisposable
{
    private readonly Process _process;
    private string _lastWords = "";

    private BridgeChild(Process process)
    {
        _process = process;
        process.ErrorDataReceived += (_, line) => _lastWords = line.Data ?? _lastWords;
        process.BeginErrorReadLine();
        process.BeginOutputReadLine();
    }

    public int ProcessId => _process.Id;

    public static BridgeChild Start(params IEnumerable<string> arguments) =>
        new(Process.Start(SelfLauncher.StartInfo([Program.BridgeProcess, "bridge", .. arguments]))
            ?? throw new ToolException("A process of the demo cannot be started."));

    /// <summary>Throws with the process's last words if it has ended by itself.</summary>
    public void ThrowIfEnded()
    {
        if (!_process.HasExited)
            return;
        _process.WaitForExit();
        throw new ToolException($"A process of the demo ended: exit code={_process.ExitCode}. {_lastWords}");
    }

    /// <summary>Kills it.</summary>
    public void Dispose()
    {
        _process.Kill();
        _process.WaitForExit();
        _process.Dispose();
    }
}

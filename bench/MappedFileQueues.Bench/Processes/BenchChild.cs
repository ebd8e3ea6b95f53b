using System.Diagnostics;
using System.Text;
using System.Text.Json;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Demo;

namespace MappedFileQueues.Bench.Processes;

/// <summary>A running child process of the bench. Disposing kills it if it still runs.</summary>
internal sealed class BenchChild : IDisposable
{
    /// <summary>Far beyond what any figure takes on a busy machine; a loop without end must not pass for a long run.</summary>
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(15);

    private static readonly TimeSpan s_deadlineQuick = TimeSpan.FromMinutes(10);

    private readonly Process _process;
    private readonly object _gate = new();
    private readonly StringBuilder _errors = new();
    private readonly string _role;
    private readonly Timer _deadline;
    private volatile bool _isLate;
    private bool _isDisposed;

    private BenchChild(Process process, string role, TimeSpan deadline)
    {
        _process = process;
        _role = role;
        process.ErrorDataReceived += (_, line) =>
        {
            lock (_errors)
                _errors.AppendLine(line.Data);
        };
        process.BeginErrorReadLine();
        _deadline = new Timer(_ => KillLate(), null, deadline, Timeout.InfiniteTimeSpan);
    }

    public int Id => _process.Id;

    /// <param name="task">What it is to do.</param>
    /// <param name="prefix">The command that starts it, and becomes it; empty for none.</param>
    public static BenchChild Start(ChildTask task, IReadOnlyList<string> prefix)
    {
        ProcessStartInfo start = SelfLauncher.StartInfo([ChildCommand.Name, .. task.ToArguments()]);
        if (prefix.Count > 0)
        {
            string[] command = [.. prefix.Skip(1), start.FileName, .. start.ArgumentList];
            start.FileName = prefix[0];
            start.ArgumentList.Clear();
            foreach (string argument in command)
                start.ArgumentList.Add(argument);
        }

        Process process = Process.Start(start)
            ?? throw new ToolException($"The process of a figure did not start: role={task.Role}.");
        return new BenchChild(process, task.Role, task.IsQuick ? s_deadlineQuick : s_deadline);
    }

    /// <summary>Waits for a line that the child prints before its samples.</summary>
    public void WaitForLine(string expected)
    {
        string? line = _process.StandardOutput.ReadLine();
        if (line != expected)
            throw Failure($"it printed another line, line={line}");
    }

    /// <summary>Waits for the end and returns what the child measured.</summary>
    public IReadOnlyList<Samples> ReadSamples()
    {
        string output = _process.StandardOutput.ReadToEnd();
        _process.WaitForExit();
        if (_process.ExitCode != 0)
            throw Failure(_isLate ? "it did not end in time" : $"its exit code was {_process.ExitCode}");
        return JsonSerializer.Deserialize(output, BenchJson.Default.SamplesArray) ?? throw Failure("it printed no samples");
    }

    /// <summary>SIGKILL, and the wait for the end. May be called by the thread that handles a signal, at any time.</summary>
    public void Kill()
    {
        lock (_gate)
        {
            if (_isDisposed)
                return;
            _process.Kill();
            _process.WaitForExit();
        }
    }

    public void Dispose()
    {
        lock (_gate)
        {
            if (!_isDisposed && !_process.HasExited)
                Kill();
            _isDisposed = true;
            _deadline.Dispose();
            _process.Dispose();
        }
    }

    private void KillLate()
    {
        _isLate = true;
        Kill();
    }

    private ToolException Failure(string reason)
    {
        lock (_errors)
            return new ToolException($"A process of a figure failed: role={_role}, {reason}. {_errors.ToString().Trim()}");
    }
}

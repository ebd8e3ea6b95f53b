using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Demo;

/// <summary>
/// The demo's side of a producer or consumer process: sends it commands, keeps its last report, stops it and kills it.
/// </summary>
internal sealed partial class DemoChild : IDisposable
{
    private const int SignalStopLinux = 19;
    private const int SignalContinueLinux = 18;
    private const int SignalStopMac = 17;
    private const int SignalContinueMac = 19;

    /// <summary>A child that is silent for this long is stuck; the demo then fails rather than hangs.</summary>
    private static readonly TimeSpan s_answerTimeMax = TimeSpan.FromSeconds(60);

    private readonly Process _process;
    private readonly CancellationToken _interrupted;
    private readonly object _gate = new();
    private readonly List<string> _errorLines = [];
    private DemoProgress _progress;
    private DemoProgress _firstProgress;
    private long _asked;
    private long _answered = -1;
    private string _answerText = "";
    private bool _outputEnded;

    private DemoChild(string role, Process process, CancellationToken interrupted)
    {
        Role = role;
        _process = process;
        _interrupted = interrupted;
        process.OutputDataReceived += (_, line) => Receive(line.Data);
        process.ErrorDataReceived += (_, line) => ReceiveError(line.Data);
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
    }

    /// <summary>The role of the child: producer or consumer.</summary>
    public string Role { get; }

    /// <summary>Its process id.</summary>
    public int ProcessId => _process.Id;

    /// <summary>The progress that it last reported.</summary>
    public DemoProgress Progress
    {
        get
        {
            lock (_gate)
                return _progress;
        }
    }

    /// <summary>Its progress when it was ready: where its predecessor was killed.</summary>
    public DemoProgress FirstProgress
    {
        get
        {
            lock (_gate)
                return _firstProgress;
        }
    }

    /// <summary>Starts this program again with a child's verb.</summary>
    public static DemoChild Start(string role, string verb, DemoFolder folder, CancellationToken interrupted)
    {
        try
        {
            return new DemoChild(role, Process.Start(SelfLauncher.StartInfo(verb, folder.Root))!, interrupted);
        }
        catch (Win32Exception exception)
        {
            throw new ToolException($"A {role} process cannot be started: {exception.Message}.");
        }
    }

    /// <summary>Sends a command, without waiting for the answer.</summary>
    public void Ask(string verb, params ReadOnlySpan<long> values)
    {
        string line = string.Create(CultureInfo.InvariantCulture, $"{++_asked} {verb}");
        foreach (long value in values)
            line += string.Create(CultureInfo.InvariantCulture, $" {value}");
        try
        {
            _process.StandardInput.WriteLine(line);
            _process.StandardInput.Flush();
        }
        catch (IOException)
        {
            // It has died; the wait for the answer reports that, and the reason.
        }
    }

    /// <summary>
    /// Waits until the child has done the last command (at first: until it is ready), and returns the answer's text.
    /// </summary>
    public string WaitForAnswer()
    {
        Wait(() => _answered >= _asked, s_answerTimeMax);
        return _answerText;
    }

    /// <summary>Like <see cref="WaitForAnswer"/>, but false when the time is up first.</summary>
    public bool TryWaitForAnswer(TimeSpan timeMax) => TryWait(() => _answered >= _asked, timeMax);

    /// <summary>Waits until the child has come this far, or has done its command before that.</summary>
    public void WaitForProgress(Func<DemoProgress, bool> isFarEnough) =>
        Wait(() => isFarEnough(_progress) || (_asked > 0 && _answered >= _asked), s_answerTimeMax);

    /// <summary>Waits for the end of a child that is done.</summary>
    public void WaitForEnd()
    {
        if (!_process.WaitForExit(s_answerTimeMax))
            throw new ToolException($"The {Role} does not end: pid={ProcessId}.");
        if (_process.ExitCode != 0)
            throw Died();
    }

    /// <summary>
    /// Stops it at any point (SIGSTOP), which it cannot notice. Windows has no such signal: there it keeps running.
    /// </summary>
    public void Suspend() => SendSignal(OperatingSystem.IsMacOS() ? SignalStopMac : SignalStopLinux);

    /// <summary>Makes it continue (SIGCONT).</summary>
    public void Resume() => SendSignal(OperatingSystem.IsMacOS() ? SignalContinueMac : SignalContinueLinux);

    /// <summary>Kills it (SIGKILL, on Windows TerminateProcess) and waits until the system has released its locks.</summary>
    public void Kill()
    {
        if (_process.HasExited)
            throw Died();
        _process.Kill();
        _process.WaitForExit();
    }

    /// <summary>Kills it if it still runs.</summary>
    public void Dispose()
    {
        if (!_process.HasExited)
        {
            _process.Kill();
            _process.WaitForExit();
        }

        _process.Dispose();
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int SendSignal(int processId, int signal);

    private void SendSignal(int signal)
    {
        if (!OperatingSystem.IsWindows() && !_process.HasExited)
            _ = SendSignal(_process.Id, signal);
    }

    private void Wait(Func<bool> condition, TimeSpan timeMax)
    {
        if (!TryWait(condition, timeMax))
            throw new ToolException($"The {Role} does not answer: pid={ProcessId}, seconds={timeMax.TotalSeconds}.");
    }

    private bool TryWait(Func<bool> condition, TimeSpan timeMax)
    {
        using CancellationTokenRegistration registration = _interrupted.Register(() =>
        {
            lock (_gate)
                Monitor.PulseAll(_gate);
        });
        long start = Stopwatch.GetTimestamp();
        lock (_gate)
        {
            while (!condition())
            {
                _interrupted.ThrowIfCancellationRequested();
                TimeSpan left = timeMax - Stopwatch.GetElapsedTime(start);
                if (left <= TimeSpan.Zero)
                    return false;
                if (_outputEnded)
                    break;
                Monitor.Wait(_gate, left);
            }

            if (condition())
                return true;
        }

        // Outside the gate, which the last lines of its output have to pass before its end is noticed.
        throw Died();
    }

    /// <summary>A report reads `at MESSAGES BYTES`, an answer `done MESSAGES BYTES SERIAL TEXT`.</summary>
    private void Receive(string? line)
    {
        lock (_gate)
        {
            string[] words = line?.Split(' ') ?? [];
            _outputEnded = line is null;
            if (words is ["at" or "done", string messages, string bytes, ..])
            {
                _progress = new DemoProgress(
                    long.Parse(messages, CultureInfo.InvariantCulture), long.Parse(bytes, CultureInfo.InvariantCulture));
            }

            if (words is ["done", _, _, string serial, string text])
            {
                if (_answered < 0)
                    _firstProgress = _progress;
                (_answered, _answerText) = (long.Parse(serial, CultureInfo.InvariantCulture), text);
            }

            Monitor.PulseAll(_gate);
        }
    }

    private void ReceiveError(string? line)
    {
        if (line is null)
            return;
        lock (_gate)
            _errorLines.Add(line);
    }

    private ToolException Died()
    {
        _process.WaitForExit();
        lock (_gate)
        {
            string said = _errorLines.Count == 0 ? "it said nothing" : string.Join(" ", _errorLines.Take(3));
            return new ToolException($"The {Role} ended by itself: pid={ProcessId}, code={_process.ExitCode}; {said}");
        }
    }
}

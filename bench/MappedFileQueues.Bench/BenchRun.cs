using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench;

/// <summary>A run: its own directory, removed at the end, and the child processes that it starts.</summary>
internal sealed class BenchRun : IDisposable
{
    private readonly object _gate = new();
    private readonly List<BenchChild> _children = [];
    private readonly PosixSignalRegistration[] _signals;

    public BenchRun(BenchSettings settings)
    {
        Settings = settings;
        Directory = Path.Combine(Path.GetFullPath(settings.Directory), $"mfq-bench-{Guid.NewGuid():N}");
        System.IO.Directory.CreateDirectory(Directory);
        _signals =
        [
            PosixSignalRegistration.Create(PosixSignal.SIGINT, Interrupt),
            PosixSignalRegistration.Create(PosixSignal.SIGTERM, Interrupt),
        ];
    }

    public BenchSettings Settings { get; }

    public string Directory { get; }

    /// <summary>Measures by one child process, or by two that meet; the first of them reports.</summary>
    public IReadOnlyList<Samples> Measure(string role, int processCount, bool rawOnly = false)
    {
        ChildTask task = TaskOf(role) with { ProcessCount = processCount, RawOnly = rawOnly };
        if (processCount == 1)
        {
            using BenchChild only = Start(task);
            return only.ReadSamples();
        }

        using RawFile rendezvous = Rendezvous.CreateFile(Path.Combine(Directory, "rendezvous"));
        using BenchChild first = Start(task);
        using BenchChild second = Start(task with { Index = 1 });
        Task<IReadOnlyList<Samples>>[] results = [Task.Run(first.ReadSamples), Task.Run(second.ReadSamples)];
        Task<IReadOnlyList<Samples>> ended = results[Task.WaitAny(results)];
        if (ended.IsFaulted)
        {
            // The other one would wait for it without end.
            (ended == results[0] ? second : first).Kill();
            Task.WhenAll(results).ContinueWith(static _ => { }, TaskScheduler.Default).Wait();
            return ended.GetAwaiter().GetResult();
        }

        results[1].GetAwaiter().GetResult();
        return results[0].GetAwaiter().GetResult();
    }

    /// <summary>Measures by one child process that works in another directory, and is started by another command.</summary>
    public IReadOnlyList<Samples> MeasureIn(string directory, IReadOnlyList<string> prefix, string role)
    {
        using BenchChild child = Start(TaskOf(role) with { Directory = directory }, prefix);
        return child.ReadSamples();
    }

    /// <summary>Starts a child whose life the figure itself directs.</summary>
    public BenchChild StartChild(string role) => Start(TaskOf(role));

    public void Dispose()
    {
        // Interrupt keeps the gate: then it is the one that ends the process, and not an error about the children that it killed.
        lock (_gate)
        {
            foreach (PosixSignalRegistration signal in _signals)
                signal.Dispose();
            DeleteDirectory();
        }
    }

    private BenchChild Start(ChildTask task, IReadOnlyList<string>? prefix = null)
    {
        lock (_gate)
        {
            BenchChild child = BenchChild.Start(task, prefix ?? []);
            _children.Add(child);
            return child;
        }
    }

    /// <summary>Ctrl-C must not leave gigabytes behind. The gate stays taken, so that no further child starts.</summary>
    private void Interrupt(PosixSignalContext signal)
    {
        signal.Cancel = true;
        Monitor.Enter(_gate);
        foreach (BenchChild child in _children)
            child.Kill();
        DeleteDirectory();
        Environment.Exit(signal.Signal == PosixSignal.SIGTERM ? ExitCodes.Terminated : ExitCodes.Interrupted);
    }

    private void DeleteDirectory()
    {
        if (System.IO.Directory.Exists(Directory))
            System.IO.Directory.Delete(Directory, recursive: true);
    }

    private ChildTask TaskOf(string role) =>
        new(role, Directory, Settings.Messages, Settings.Repetitions, Settings.IsQuick, Bytes: Settings.Bytes,
            WarmsUp: Settings.WarmsUp, IsCold: Settings.IsCold);
}

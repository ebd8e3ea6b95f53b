namespace MappedFileQueues.Bench.Processes;

/// <summary>What a figure needs inside a child process: its task, its paths, and where it meets the other process.</summary>
internal sealed class ChildContext : IDisposable
{
    private readonly Rendezvous? _rendezvous;

    public ChildContext(ChildTask task)
    {
        Task = task;
        if (task.ProcessCount == 2)
            _rendezvous = Rendezvous.Open(Path("rendezvous"));
    }

    public ChildTask Task { get; }

    public long Messages => Task.Messages;

    /// <summary>What each repetition of a figure about files moves.</summary>
    public long Bytes => Task.Bytes;

    public int Repetitions => Task.Repetitions;

    /// <summary>The first of two processes makes the files and reports.</summary>
    public bool IsFirst => Task.Index == 0;

    public Rendezvous Rendezvous =>
        _rendezvous ?? throw new InvalidOperationException("This figure runs in one process and meets no other.");

    /// <summary>A path in the figure's own directory.</summary>
    public string Path(string name) => System.IO.Path.Combine(Task.Directory, name);

    public void Dispose() => _rendezvous?.Dispose();
}

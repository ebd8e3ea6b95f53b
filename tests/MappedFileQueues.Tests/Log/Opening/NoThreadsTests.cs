namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>A system that gives the process no thread (ulimit -u, a container's limit of processes).</summary>
public sealed class NoThreadsTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A thread was noted before it was started. When the system gave none, a failed constructor held the lock `attached` for the
    /// life of the process, a failed ConsumeAsync left the consumer waiting for ever, and Dispose threw ThreadStateException.
    /// </summary>
    [Fact]
    public void Use_NoThreadToBeHad_FailsWhereOneIsNeededAndWorksAgain()
    {
        using ChildProcess child = RunPeer();

        child.ExpectExit();

        string[] parts =
        [
            "notices", "warm", "limit", "open", "interval", "produce", "consume", "consume-async", "durable-async", "append",
            "compact", "checkpoint", "files", "buffer", "read-ahead",
        ];
        Assert.Equal(parts.Select(part => $"{part} ok"), child.Lines);
    }

    /// <summary>
    /// A thread of .NET needs a descriptor. Where the runtime's pool wants another one while there is none, which it does on a
    /// busy machine, its own worker ends the process: "Out of memory." Then another process runs the parts.
    /// </summary>
    private ChildProcess RunPeer()
    {
        const int TriesMax = 10;
        TempStore.MakeReadable(_temp.Root);
        for (int tries = 1; ; tries++)
        {
            string folder = Directory.CreateDirectory(Path.Combine(_temp.Root, $"{tries}")).FullName;
            if (!OperatingSystem.IsWindows())
                File.SetUnixFileMode(folder, (UnixFileMode)0b111_111_111);
            ChildProcess child = ChildProcess.StartPeerAsNobody("no-threads", folder);
            child.WaitForExit(TimeSpan.FromMinutes(5));
            bool isEndedByPool = child.Lines.Count == 0 && child.ErrorText.StartsWith("Out of memory.", StringComparison.Ordinal);
            if (!isEndedByPool || tries == TriesMax)
                return child;
            child.Dispose();
        }
    }
}

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
        if (!OperatingSystem.IsWindows())
            File.SetUnixFileMode(_temp.Root, (UnixFileMode)0b111_111_111);
        using ChildProcess child = ChildProcess.StartPeerAsNobody("no-threads", _temp.Root);

        child.ExpectExit();

        string[] parts =
        [
            "notices", "warm", "limit", "open", "interval", "produce", "consume", "consume-async", "durable-async", "append",
            "compact", "checkpoint", "files", "buffer", "read-ahead",
        ];
        Assert.Equal(parts.Select(part => $"{part} ok"), child.Lines);
    }
}

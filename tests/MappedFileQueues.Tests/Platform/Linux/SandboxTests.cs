using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Platform.Linux;

/// <summary>Limits that the system sets to a process: the length of files (ulimit -f), and calls that a sandbox denies.</summary>
[Trait("Category", "Slow")]
public sealed class SandboxTests : IDisposable
{
    private const int Limit = 512 * 1024;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// SIGXFSZ ended the process before any error could be reported: with a limit below the segment's length at once, with
    /// exactly that length as soon as a segment was used again, because such a file is a little longer.
    /// </summary>
    [Fact]
    public void Open_LimitOfFileLengths_IsAnError()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The limit is set by the shell.");
        using PeerAgent agent = PeerAgent.StartUnder(
            "bash", "-c", $"ulimit -c 0; ulimit -f {Limit / 1024}; exec \"$@\"", "bash");

        string error = agent.AskForError($"open path={_temp.PathOf("long")} segment={2 * Limit}");
        Assert.Contains("errno=27", error, StringComparison.Ordinal);
        Assert.Contains("ulimit -f", error, StringComparison.Ordinal);

        agent.Ask($"open path={_temp.PathOf("fits")} segment={Limit}");
        agent.Ask($"retain bytes={2 * Limit}");
        agent.Ask($"pour prefix=m size=1000 count={12 * Limit / 1000}");
        agent.Ask("close");
    }

    /// <summary>
    /// `prlimit` sets the limit of a process that runs. One that was lowered ended it by SIGXFSZ; one that was raised, as the
    /// error asks for, counted only after a restart.
    /// </summary>
    [Fact]
    public void Open_LimitOfFileLengthsChanges_CountsAtOnce()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && File.Exists("/usr/bin/prlimit"), "prlimit is not installed.");
        using PeerAgent agent = PeerAgent.StartUnder("bash", "-c", "ulimit -c 0; exec \"$@\"", "bash");
        agent.Ask($"open path={_temp.PathOf("before")} segment={Limit}");
        agent.Ask("close");

        MountedFileSystem.Run("prlimit", "--pid", $"{agent.Id}", $"--fsize={Limit}:");
        string error = agent.AskForError($"open path={_temp.PathOf("long")} segment={2 * Limit}");
        Assert.Contains("errno=27", error, StringComparison.Ordinal);

        MountedFileSystem.Run("prlimit", "--pid", $"{agent.Id}", $"--fsize={4 * Limit}:");
        agent.Ask($"open path={_temp.PathOf("long")} segment={2 * Limit}");
        agent.Ask("append prefix=m");
        agent.Ask("close");
    }

    /// <summary>
    /// A process that had no descriptor left when it asked for the boot took it for an unknown one from then on: each store that
    /// it opened alone was cut as after a power loss.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public void Boot_NoDescriptorLeft_FailsAndIsKnownAfterwards(int services)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Windows has no such limit.");
        using PeerAgent agent = PeerAgent.Start();
        // What the runtime loads for it comes first.
        agent.Ask($"open path={_temp.StorePath} segment={Limit}");
        agent.Ask("close");

        agent.Ask("limit files=3");
        string error = agent.AskForError($"boot services={services}");
        Assert.Contains("errno=24", error, StringComparison.Ordinal);

        agent.Ask("limit files=200");
        BootIdentity known = services == 0 ? new LinuxServices().Boot : new PortableServices().Boot;
        Assert.Equal(known.Stored.ToString(), agent.Ask($"boot services={services}"));
    }

    /// <summary>A service whose folder was replaced by a new release told "Unable to find the specified file." alone.</summary>
    [Fact]
    public void Open_FolderOfTheProcessIsGone_IsTheError()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Windows removes no folder in which a process works.");
        using PeerAgent agent = PeerAgent.StartUnder(
            "bash", "-c", "cd \"$(mktemp -d)\" && rmdir \"$PWD\" && exec \"$@\"", "bash");

        string error = agent.AskForError($"open path=relative segment={Limit}");
        Assert.Contains("the folder in which this process works: path=relative, errno=2", error, StringComparison.Ordinal);
        agent.Ask($"open path={_temp.StorePath} segment={Limit}");
        agent.Ask("close");
    }

    /// <summary>
    /// Profiles of seccomp that are older than a call, or stricter than needed, answer it with EPERM or ENOSYS. There is another
    /// way for each of these, and it was taken only where the file system, not the sandbox, lacked the call.
    /// </summary>
    [Theory]
    [InlineData("fallocate", "EPERM")]
    [InlineData("fallocate", "ENOSYS")]
    [InlineData("renameat2", "EPERM")]
    [InlineData("renameat2", "ENOSYS")]
    [InlineData("statx", "EPERM")]
    [InlineData("statx", "ENOSYS")]
    public void Open_CallIsDenied_ThereIsAnotherWay(string call, string error)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && File.Exists("/usr/bin/strace"), "strace is not installed.");
        using PeerAgent agent = PeerAgent.StartUnder(
            "strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null",
            "-e", $"trace={call}", "-e", $"inject={call}:error={error}");

        agent.Ask($"open path={_temp.StorePath} segment={Limit}");
        agent.Ask($"retain bytes={2 * Limit}");
        agent.Ask($"pour prefix=m size=1000 count={6 * Limit / 1000}");
        agent.Ask("append prefix=last");
        agent.Ask("close");
        agent.Ask($"open path={_temp.StorePath} segment={Limit}");
        Assert.EndsWith("last-0", agent.Ask("consume count=10000"), StringComparison.Ordinal);
    }

    /// <summary>A signal, which ends no other flush, ended that of a file system, and with it the stream of a log.</summary>
    [Fact]
    public void FlushFileSystem_Interrupted_IsMadeAgain()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && File.Exists("/usr/bin/strace"), "strace is not installed.");
        using PeerAgent agent = PeerAgent.StartUnder(
            "strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null",
            "-e", "trace=syncfs", "-e", "inject=syncfs:error=EINTR:when=1");

        agent.Ask($"syncfs path={_temp.Root}");
    }
}

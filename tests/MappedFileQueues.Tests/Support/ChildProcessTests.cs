namespace MappedFileQueues.Tests.Support;

/// <summary>
/// The harness itself: a child that cannot be stopped or killed would turn every test that does so into one that cannot fail.
/// </summary>
public sealed class ChildProcessTests
{
    [Fact]
    public void WaitForLine_ChildEchoes_LinesArriveInOrder()
    {
        using ChildProcess child = ChildProcess.StartPeer("echo", "one", "two words");
        child.WaitForLine("two words");
        child.Input.WriteLine("three");
        child.WaitForLine("three");
        child.Input.Close();

        child.ExpectExit();
        Assert.Equal(["one", "two words", "three"], child.Lines);
    }

    [Fact]
    public void WaitForLine_OutputEndsWithoutIt_FailsAndShowsTheOutput()
    {
        using ChildProcess child = ChildProcess.StartPeer("echo", "one");
        child.Input.Close();

        Exception failure = Assert.ThrowsAny<Exception>(() => child.WaitForLine("two"));
        Assert.Contains("ended without", failure.Message, StringComparison.Ordinal);
        Assert.Contains("one", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Start_UnknownVerb_ExitsWithUsage()
    {
        using ChildProcess child = ChildProcess.StartPeer("no-such-verb");

        child.ExpectExit(64);
        Assert.Contains("Usage:", child.ErrorText, StringComparison.Ordinal);
    }

    [Fact]
    public void KillAndWait_RunningChild_ExitCodeTellsTheSignal()
    {
        using ChildProcess child = ChildProcess.StartPeer("echo", "ready");
        child.WaitForLine("ready");

        child.KillAndWait();

        Assert.Equal(ChildProcess.ExitCodeKilled, child.WaitForExit());
        Assert.False(child.Signal(ChildProcess.SigCont));
    }

    [Fact]
    public void Stop_ChildHasInput_AnswersOnlyOnceContinued()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Thread states are read from /proc.");
        using ChildProcess child = ChildProcess.StartPeer("echo", "ready");
        child.WaitForLine("ready");

        child.Stop();
        child.Input.WriteLine("while stopped");
        Assert.Equal(["ready"], child.Lines);
        child.Continue();

        child.WaitForLine("while stopped");
    }
}

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>A consuming application in a process of its own, killed or ended while its handler runs.</summary>
[Trait("Category", "Slow")]
public sealed class KilledHostTests
{
    [Fact]
    public void Kill_InTheHandler_RepeatsThatMessageAndNoOther()
    {
        using TempStore store = new();
        Fill(store, 5);
        using (ChildProcess first = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "step"]))
        {
            for (int i = 0; i < 2; i++)
            {
                first.WaitForLine($"begin {i}");
                first.Input.WriteLine();
            }

            first.WaitForLine("begin 2");
            first.KillAndWait();
        }

        using ChildProcess second = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "run"]);
        second.WaitForLine("end 4");
        second.KillAndWait();

        Assert.Equal(["begin 2", "end 2", "begin 3", "end 3", "begin 4", "end 4"], second.Lines);
    }

    [Fact]
    public void Interrupt_InTheHandler_EndsThatMessageAndRepeatsNone()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The child is interrupted by a signal.");
        using TempStore store = new();
        Fill(store, 5);
        using (ChildProcess first = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "step"]))
        {
            first.WaitForLine("begin 0");
            first.Signal(2);
            first.WaitForLine("stopping");
            first.Input.WriteLine();
            first.ExpectExit();
            Assert.Equal(["begin 0", "stopping", "end 0"], first.Lines);
        }

        using ChildProcess second = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "run"]);
        second.WaitForLine("end 4");
        Assert.Equal("begin 1", second.Lines[0]);
        Assert.Equal(8, second.Lines.Count);
    }

    /// <summary>
    /// A consumer whose handler fails stops its application, as it was told to. The process ended with code 0, so that nothing
    /// started it again: systemd does with Restart=on-failure only after another code.
    /// </summary>
    [Fact]
    public void StopApplication_HandlerFails_ExitCodeTellsIt()
    {
        using TempStore store = new();
        Fill(store, 1);
        using ChildProcess child = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "fail"]);

        child.ExpectExit(1);
    }

    private static void Fill(TempStore store, int count)
    {
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = store.StorePath });
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(i);
    }
}

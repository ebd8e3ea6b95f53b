namespace MappedFileQueues.Tests.Crash.Disposers;

/// <summary>
/// docs/DESIGN.md section 1, Dispose: two threads at one place, brought there step by step in a child, because a mistake kills
/// the process. The stories of the cases:
/// <list type="bullet">
/// <item>wait-added-before-unmap, waits-and-cancels: an asynchronous wait added itself, the queue was disposed, and then the
/// wait woke the waiting thread, by a store into the control page, which was gone.</item>
/// <item>call-checked-before-unmap: an append looked at poison, which is a mapped word, before it had marked its call.</item>
/// <item>claim-published-as-it-times-out: Dispose gave a claim of another thread up and turned what its lane pointed at into
/// padding; the claim had just been published, and the lane pointed at a living claim of another producer of the queue, or out
/// of the segment.</item>
/// </list>
/// </summary>
[Trait("Category", "Slow")]
public sealed class DisposeRaceTests
{
    [Theory]
    [InlineData("wait-added-before-unmap")]
    [InlineData("waits-and-cancels")]
    [InlineData("call-checked-before-unmap")]
    [InlineData("claim-published-as-it-times-out")]
    public void Race_BroughtAboutStepByStep_Holds(string name)
    {
        using var store = new TempStore();
        using ChildProcess child = ChildProcess.StartPeer("race", name, store.StorePath);
        child.WaitForLine("held");
        child.ExpectExit();
    }
}

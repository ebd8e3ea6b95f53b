using MappedFileQueues.Packs.Writing;

namespace MappedFileQueues.Tests.Packs.Writing;

public sealed class GroupSyncTests
{
    /// <summary>
    /// `Thread.Interrupt` on a thread that led a sync, while another one came, left all puts, flushes and Dispose waiting for
    /// ever: the thread was gone, and nobody else could lead.
    /// </summary>
    [Fact]
    public void WaitFor_LeadersAreInterrupted_OthersLeadAfterThem()
    {
        ulong written = 0;
        GroupSync group = new(() =>
        {
            ulong upTo = Volatile.Read(ref written);
            Thread.Yield();
            Thread.CurrentThread.Interrupt();
            return upTo;
        });
        InterruptedThreads.Run((_, _) => group.WaitFor(Interlocked.Increment(ref written)));
    }
}

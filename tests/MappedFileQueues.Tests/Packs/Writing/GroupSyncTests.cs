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
        const int CallCount = 2_000;
        ulong written = 0;
        int interrupts = 0;
        GroupSync group = new(() =>
        {
            ulong upTo = Volatile.Read(ref written);
            Thread.Yield();
            Thread.CurrentThread.Interrupt();
            return upTo;
        });
        Thread[] threads = [.. Enumerable.Range(0, 4).Select(_ => new Thread(() =>
        {
            for (int call = 0; call < CallCount; call++)
            {
                try
                {
                    group.WaitFor(Interlocked.Increment(ref written));
                }
                catch (ThreadInterruptedException)
                {
                    Interlocked.Increment(ref interrupts);
                }
            }
        }) { IsBackground = true })];
        Array.ForEach(threads, thread => thread.Start());

        Assert.All(threads, thread => Assert.True(thread.Join(TimeSpan.FromSeconds(30))));
        Assert.NotEqual(0, interrupts);
    }
}

using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Writing;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>Who comes next.</summary>
public sealed class PackGateTests
{
    private const int PuttingThreads = 3;
    private const int Rounds = 50;

    /// <summary>
    /// A durable put beside threads that put without a pause waited for 100 ms, twice, with a plain lock: the others came back
    /// before the sleeping thread was awake, 100,000 times in a row. Here the threads that stand back count their turns.
    /// </summary>
    [Fact]
    public void Take_BesideThreadsWithoutAPause_IsNotPassedByThousands()
    {
        var gate = new PackGate();
        long turns = 0;
        bool isOver = false;
        Thread[] putting = [.. Enumerable.Range(0, PuttingThreads).Select(_ => new Thread(() =>
        {
            while (!Volatile.Read(ref isOver))
            {
                using (gate.TakeAfterOthers())
                {
                    Volatile.Write(ref turns, turns + 1);
                    Thread.SpinWait(20);
                }
            }
        }))];
        foreach (Thread thread in putting)
            thread.Start();
        long[] passed = new long[Rounds];
        for (int round = 0; round < Rounds; round++)
        {
            Thread.Sleep(5);
            long before = Volatile.Read(ref turns);
            using (gate.Take())
                passed[round] = turns - before;
        }

        Volatile.Write(ref isOver, true);
        foreach (Thread thread in putting)
            thread.Join();

        // This thread may stand still between its look and its word that it waits: so the median.
        Array.Sort(passed);
        TestContext.Current.TestOutputHelper?.WriteLine(
            $"passed by {passed[Rounds / 2]} in the median, {passed[^1]} at most, {turns} turns in all");
        Assert.True(turns > 0);
        Assert.InRange(passed[Rounds / 2], 0, 2000);
    }

    [Fact]
    public void Take_ByManyThreads_OneAtATime()
    {
        var gate = new PackGate();
        int count = 0;
        Parallel.For(0, 8, number =>
        {
            for (int i = 0; i < 20_000; i++)
            {
                using (number % 2 == 0 ? gate.Take() : gate.TakeAfterOthers())
                    count++;
            }
        });

        Assert.Equal(160_000, count);
    }
}

using System.Globalization;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>A queue whose messages are all on disk wakes up for nothing but its consumer's look around, once a second.</summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed class IdleTests
{
    /// <summary>It was 16 a second: the flush threads' ticks, and a look for each sleeper ten times a second.</summary>
    [Fact]
    public void Wait_ThreeFlushedQueues_WakeOnceASecondEach()
    {
        using var folder = new TempStore();
        using ChildProcess child = ChildProcess.StartPeer("idle", folder.Root, "3");
        child.WaitForLine(line => line == "idle");
        // The last ticks, and the compiler's own threads.
        Thread.Sleep(TimeSpan.FromSeconds(3));
        long before = CountSwitches(child.Id);
        Thread.Sleep(TimeSpan.FromSeconds(3));

        long switches = CountSwitches(child.Id) - before;

        // Three consumers make 9; the runtime has threads of its own.
        Assert.InRange(switches, 6, 22);
    }

    private static long CountSwitches(int processId)
    {
        long count = 0;
        foreach (string task in Directory.GetDirectories(string.Create(CultureInfo.InvariantCulture, $"/proc/{processId}/task")))
        {
            const string Counter = "voluntary_ctxt_switches:";
            string line = File.ReadLines(Path.Combine(task, "status"))
                .First(line => line.StartsWith(Counter, StringComparison.Ordinal));
            count += long.Parse(line.AsSpan(Counter.Length).Trim(), CultureInfo.InvariantCulture);
        }

        return count;
    }
}

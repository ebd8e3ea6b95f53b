using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>A queue whose messages are all on disk wakes up for nothing but its consumer's look around, once a second.</summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed class IdleTests
{
    /// <summary>Three consumers make 3; the runtime has threads of its own.</summary>
    private const double PerSecondMax = 7.3;

    /// <summary>It was 16 a second: the flush threads' ticks, and a look for each sleeper ten times a second.</summary>
    [Fact]
    public void Wait_ThreeFlushedQueues_WakeOnceASecondEach()
    {
        using var folder = new TempStore();
        using ChildProcess child = ChildProcess.StartPeer("idle", folder.Root, "3");
        child.WaitForLine(line => line == "idle");
        // The last ticks, and the compiler's own threads; on a busy machine they take longer.
        double perSecond = double.MaxValue;
        for (int window = 0; window < 20 && perSecond > PerSecondMax; window++)
        {
            Thread.Sleep(TimeSpan.FromSeconds(3));
            long began = Stopwatch.GetTimestamp();
            long before = CountSwitches(child.Id);
            Thread.Sleep(TimeSpan.FromSeconds(3));
            perSecond = (CountSwitches(child.Id) - before) / Stopwatch.GetElapsedTime(began).TotalSeconds;
        }

        Assert.InRange(perSecond, 1, PerSecondMax);
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

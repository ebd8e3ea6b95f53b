using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `lost-disk STORE`: appends and commits durably, prints `READY confirmed`, and is sent a line when the file system takes no
/// writes any more. Then it appends at Interval until it is refused, and prints `PRODUCE exception appended confirmed`, `COMMIT
/// exception errno`, `FLUSH exception` and `POISONED bool`.
/// </summary>
internal static class LostDiskVerb
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(1);

    public static int Run(string[] arguments)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = arguments[0],
            SegmentSize = 1 << 20,
            Durability = DurabilityLevel.Interval,
            FlushInterval = TimeSpan.FromMilliseconds(20),
        });
        MappedFileConsumer consumer = queue.Consumer;
        for (int i = 0; i < 10; i++)
            queue.Producer.Produce("before"u8);
        queue.Flush();
        _ = consumer.Consume();
        consumer.Commit(durable: true);
        _ = consumer.Consume();
        Print($"READY {queue.ConfirmedOffset}");
        if (Console.ReadLine() is null)
            return 1;

        // Mapped memory: the commit itself succeeds whatever became of the disk.
        Exception? commit = Catch(() => consumer.Commit(durable: true));
        Print($"COMMIT {commit?.GetType().Name} {(commit as QueueDiskException)?.Errno}");
        int appended = 0;
        long began = Stopwatch.GetTimestamp();
        Exception? produce = null;
        while (produce is null && Stopwatch.GetElapsedTime(began) < s_deadline)
        {
            produce = Catch(() => queue.Producer.Produce("after"u8));
            appended += produce is null ? 1 : 0;
            Thread.Sleep(1);
        }

        Print($"PRODUCE {produce?.GetType().Name} {appended} {queue.ConfirmedOffset}");
        Print($"FLUSH {Catch(() => queue.Flush())?.GetType().Name}");
        Print($"POISONED {queue.GetInfo().IsPoisoned}");
        return 0;
    }

    private static void Print(FormattableString line) => Console.WriteLine(line.ToString(CultureInfo.InvariantCulture));

    private static Exception? Catch(Action call)
    {
        try
        {
            call();
            return null;
        }
        catch (MappedFileQueueException error)
        {
            return error;
        }
    }
}

using System.Runtime.CompilerServices;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `pending-waits FOLDER`: 10 consumers on each of 100 queues wait, all at once; each queue gets a message, each consumer takes
/// it, and so on. Prints how many bytes the whole process has allocated for that, in the best of some runs: the runtime's own
/// threads allocate now and then.
/// </summary>
internal static class PendingWaitsVerb
{
    private const int QueueCount = 100;
    private const int ConsumerCount = 10;
    private const int RoundsOfARun = 20;
    private const int RunsMax = 20;

    private static readonly Action s_ended = End;
    private static readonly ManualResetEventSlim s_allEnded = new();
    private static int s_left;

    public static int Run(string[] arguments)
    {
        var queues = new MappedFileQueue<long>[QueueCount];
        var consumers = new MappedFileConsumer<long>[QueueCount * ConsumerCount];
        for (int i = 0; i < QueueCount; i++)
        {
            queues[i] = new MappedFileQueue<long>(new MappedFileQueueOptions
            {
                StorePath = Path.Combine(arguments[0], $"q{i}"),
                SegmentSize = 64 * 1024,
                Durability = DurabilityLevel.PageCache,
            });
            for (int c = 0; c < ConsumerCount; c++)
                consumers[(i * ConsumerCount) + c] = queues[i].OpenConsumer($"c{c}");
        }

        var waits = new ValueTaskAwaiter<bool>[consumers.Length];
        long number = 0;
        long least = long.MaxValue;
        for (int run = 0; run < RunsMax && least > 0; run++)
        {
            long before = GC.GetTotalAllocatedBytes(precise: true);
            for (int round = 0; round < RoundsOfARun; round++)
                RunRound(queues, consumers, waits, number++);
            long bytes = GC.GetTotalAllocatedBytes(precise: true) - before;
            // The first runs fill pools, and compile.
            if (run > 2)
                least = Math.Min(least, bytes);
        }

        Console.WriteLine(least == 0 ? "0 bytes a message" : $"{least} bytes in {RoundsOfARun * consumers.Length} messages");
        foreach (MappedFileQueue<long> queue in queues)
            queue.Dispose();
        return 0;
    }

    private static void RunRound(
        MappedFileQueue<long>[] queues, MappedFileConsumer<long>[] consumers, ValueTaskAwaiter<bool>[] waits, long number)
    {
        s_left = consumers.Length;
        s_allEnded.Reset();
        for (int i = 0; i < consumers.Length; i++)
        {
            waits[i] = consumers[i].WaitToConsumeAsync().GetAwaiter();
            if (waits[i].IsCompleted)
                throw new InvalidOperationException("A wait has ended before its message.");
            waits[i].UnsafeOnCompleted(s_ended);
        }

        foreach (MappedFileQueue<long> queue in queues)
            queue.Producer.Produce(number);
        if (!s_allEnded.Wait(TimeSpan.FromMinutes(1)))
            throw new TimeoutException($"{s_left} waits have not ended.");
        for (int i = 0; i < consumers.Length; i++)
        {
            if (!waits[i].GetResult() || !consumers[i].TryConsume(out long read) || read != number)
                throw new InvalidOperationException("A wait ended without its message.");
            consumers[i].Commit();
        }
    }

    private static void End()
    {
        if (Interlocked.Decrement(ref s_left) == 0)
            s_allEnded.Set();
    }
}

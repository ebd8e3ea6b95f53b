using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// The share of one CPU that a process uses which has three queues open and a consumer waiting on each, beside a process whose
/// three threads wait on nothing but a semaphore. Both sit idle side by side while a third one watches them from outside.
/// </summary>
internal static class IdleFigure
{
    public const string Name = "idle_cpu";
    public const string RawRole = "idle_raw";
    public const string QueueRole = "idle_queues";

    private const string Ready = "idle";
    private const int QueueCount = 3;

    /// <summary>
    /// A waiting consumer looks around once a second, and code is compiled again after 30 calls: so long the runtime's
    /// compiler runs now and then, which is no cost of waiting. A quick run does not wait for the end of that.
    /// </summary>
    private static readonly TimeSpan s_settle = TimeSpan.FromSeconds(15);

    private static readonly TimeSpan s_settleQuick = TimeSpan.FromSeconds(1.5);

    public static IReadOnlyList<Samples> Measure(BenchRun run)
    {
        TimeSpan window = TimeSpan.FromSeconds(run.Settings.IsQuick ? 3 : 10);
        int repetitions = run.Settings.IsQuick ? 1 : 3;
        using BenchChild raw = run.StartChild(RawRole);
        using BenchChild queues = run.StartChild(QueueRole);
        raw.WaitForLine(Ready);
        queues.WaitForLine(Ready);
        Thread.Sleep(run.Settings.IsQuick ? s_settleQuick : s_settle);
        double[] rawShares = new double[repetitions];
        double[] queueShares = new double[repetitions];
        for (int i = 0; i < repetitions; i++)
        {
            TimeSpan rawBefore = ProcessorTime.Of(raw.Id);
            TimeSpan queuesBefore = ProcessorTime.Of(queues.Id);
            long start = Clock.Now;
            Thread.Sleep(window);
            double milliseconds = Clock.MillisecondsSince(start);
            rawShares[i] = (ProcessorTime.Of(raw.Id) - rawBefore).TotalMilliseconds / milliseconds * 100;
            queueShares[i] = (ProcessorTime.Of(queues.Id) - queuesBefore).TotalMilliseconds / milliseconds * 100;
        }

        return [new Samples(Name, "%", rawShares, queueShares)];
    }

    /// <summary>Runs in a child until it is killed.</summary>
    public static IReadOnlyList<Samples> WaitRaw(ChildContext context)
    {
        using SemaphoreSlim never = new(0);
        WaitForEver(() => never.Wait());
        return [];
    }

    /// <summary>Runs in a child until it is killed.</summary>
    public static IReadOnlyList<Samples> WaitOnQueues(ChildContext context)
    {
        List<Action> consumers = [];
        for (int i = 0; i < QueueCount; i++)
        {
            MappedFileQueue<Message64> queue = new(new MappedFileQueueOptions { StorePath = context.Path($"store-{i}") });
            Message64 message = Message64.Create();
            queue.Producer.Produce(ref message);
            queue.Consumer.Consume(out _);
            queue.Consumer.Commit();
            consumers.Add(() => queue.Consumer.Consume(out _));
        }

        WaitForEver([.. consumers]);
        return [];
    }

    private static void WaitForEver(params Action[] waits)
    {
        List<Thread> threads = [];
        for (int i = 0; i < QueueCount; i++)
        {
            Action wait = waits[i % waits.Length];
            threads.Add(new Thread(() => wait()));
            threads[i].Start();
        }

        Console.Out.WriteLine(Ready);
        foreach (Thread thread in threads)
            thread.Join();
    }
}

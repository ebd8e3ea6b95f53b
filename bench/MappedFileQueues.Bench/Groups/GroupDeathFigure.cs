using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>
/// Milliseconds from the kill of a member that holds a batch to the first of its messages in the hands of one that waits: the
/// worst of twenty kills a repetition. Every message of the batch comes again, once.
/// </summary>
internal static class GroupDeathFigure
{
    public const string Name = "group_death";
    public const string HolderRole = "group_death_holder";

    private const string Group = "bench";
    private const string Holding = "holding";
    private const int BatchLength = 64;
    private const int KillsFull = 20;
    private const int KillsQuick = 3;

    public static IReadOnlyList<Samples> Measure(BenchRun run)
    {
        List<double> worst = [];
        string path = Path.Combine(run.Directory, "store");
        using (var queue = new MappedFileQueue<Message64>(Options(path)))
        using (MappedFileGroupMember<Message64> member = queue.OpenGroupMember(Group))
        {
            for (int repetition = 0; repetition < run.Settings.Repetitions; repetition++)
            {
                worst.Add(Enumerable.Range(0, run.Settings.IsQuick ? KillsQuick : KillsFull)
                    .Max(_ => KillOne(run, queue, member)));
            }
        }

        BenchStore.Delete(path);
        return [new Samples(Name, "ms", new double[worst.Count], [.. worst])];
    }

    /// <summary>Runs in a child, which is killed when it has said what it holds.</summary>
    public static IReadOnlyList<Samples> Hold(ChildContext context)
    {
        var queue = new MappedFileQueue<Message64>(Options(context.Path("store")));
        MappedFileGroupMember<Message64> member = queue.OpenGroupMember(Group);
        var batch = new Message64[BatchLength];
        int count = member.ConsumeBatch(batch, new long[BatchLength]);
        Sums.Check(Name, (ulong)count, BatchLength);
        Console.Out.WriteLine(Holding);
        Thread.Sleep(Timeout.Infinite);
        GC.KeepAlive(member);
        GC.KeepAlive(queue);
        return [];
    }

    private static double KillOne(BenchRun run, MappedFileQueue<Message64> queue, MappedFileGroupMember<Message64> member)
    {
        Message64 message = Message64.Create();
        for (int i = 0; i < BatchLength; i++)
        {
            message.Number = (ulong)i;
            queue.Producer.Produce(in message);
        }

        using BenchChild holder = run.StartChild(HolderRole);
        holder.WaitForLine(Holding);
        long received = 0;
        ulong sum = 0;
        Thread waiter = new(() =>
        {
            for (int i = 0; i < BatchLength; i++)
            {
                member.Consume(out Message64 returned);
                if (i == 0)
                    received = Clock.Now;
                sum += returned.Sum();
                member.Acknowledge();
            }
        });
        waiter.Start();
        // Asleep by then, as a member is that waits for work.
        Thread.Sleep(20);
        long killed = Clock.Now;
        holder.Kill();
        waiter.Join();
        Sums.Check(Name, sum, Message64.ExpectedSum(BatchLength));
        return Clock.Nanoseconds(received - killed) / 1e6;
    }

    private static MappedFileQueueOptions Options(string path) => BenchStore.InDefaultSegments(path, ProducerMode.Shared);
}

using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>
/// Nanoseconds for each message that ten named consumers read, each all of the log on a thread of its own, all together; beside
/// one of them alone.
/// </summary>
internal sealed class FanOutFigure(ChildContext context)
{
    public const string Name = "fanout_10";

    private const int ConsumerCount = 10;
    private const int WarmUpCount = 500;

    public IReadOnlyList<Samples> Measure()
    {
        string path = context.Path("store");
        Samples samples;
        using (var queue = new StructQueue(BenchStore.InOneSegment(path, context.Messages, ProducerMode.Shared)))
        {
            queue.Append(context.Messages);
            MappedFileConsumer<Message64>[] consumers =
                [.. Enumerable.Range(0, ConsumerCount).Select(i => queue.OpenConsumer($"reader-{i}"))];
            WarmUp.UntilCompiled(() => Read(consumers[..1], WarmUpCount));
            // Each has its pages mapped from now on.
            Read(consumers, context.Messages);
            samples = Interleaved.Run(
                Name,
                "ns",
                context.Repetitions,
                () => Read(consumers[..1], context.Messages),
                () => Read(consumers, context.Messages));
            foreach (MappedFileConsumer<Message64> consumer in consumers)
                consumer.Dispose();
        }

        BenchStore.Delete(path);
        return [samples];
    }

    /// <summary>From the first start to the last end, for each message of each consumer.</summary>
    private static double Read(MappedFileConsumer<Message64>[] consumers, long count)
    {
        ulong[] sums = new ulong[consumers.Length];
        using var start = new Barrier(consumers.Length + 1);
        Thread[] threads = [.. consumers.Select((consumer, i) => new Thread(() =>
        {
            consumer.SeekToStart();
            start.SignalAndWait();
            sums[i] = StructQueue.Read(consumer, checked((int)count));
        }))];
        foreach (Thread thread in threads)
            thread.Start();
        start.SignalAndWait();
        long started = Clock.Now;
        foreach (Thread thread in threads)
            thread.Join();
        double each = Clock.NanosecondsEach(started, count * consumers.Length);
        foreach (ulong sum in sums)
            Sums.Check(Name, sum, Message64.ExpectedSum(count));
        return each;
    }
}

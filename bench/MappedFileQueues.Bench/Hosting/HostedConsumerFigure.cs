using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Hosting;

/// <summary>
/// Nanoseconds for each message that a handler of an application gets, alone or in batches, its commit included; beside a bare
/// loop that reads and commits as many at a time.
/// </summary>
internal sealed class HostedConsumerFigure(ChildContext context, bool isBatch)
{
    public const string Name = "hosted_consumer";

    /// <summary>A call of the handler for each message.</summary>
    public const string EachName = "hosted_consumer_each";

    private const int WarmUpCount = 500;

    /// <summary>More than the warm-up ever handles.</summary>
    private const long WarmUpCountMax = 600_000;

    private const long CountMax = 4_000_000;

    public IReadOnlyList<Samples> Measure()
    {
        int count = (int)Math.Min(context.Messages, CountMax);
        using (HostedQueue warm = Open("warm-store", WarmUpCountMax))
        {
            WarmUp.UntilCompiled(() =>
            {
                warm.Run(WarmUpCount);
                MeasureRaw(WarmUpCount);
            });
        }

        return
        [
            Interleaved.Run(
                isBatch ? Name : EachName, "ns", context.Repetitions, () => MeasureRaw(count), () => MeasureHosted(count)),
        ];
    }

    private double MeasureHosted(int count)
    {
        using HostedQueue hosted = Open("store", count + 1);
        return Clock.Nanoseconds(hosted.Run(count).Handle) / count;
    }

    private double MeasureRaw(int count)
    {
        string path = context.Path("raw-store");
        double nanoseconds;
        MappedFileQueueOptions options =
            BenchStore.InOneSegment(path, count, ProducerMode.Shared);
        using (StructQueue queue = isBatch ? new BatchQueue(options, HostedQueue.BatchLength) : new StructQueue(options))
        {
            queue.Prepare(RawFile.LengthFor(count));
            queue.Append(count);
            long start = Clock.Now;
            ulong sum = queue.Read(count);
            nanoseconds = Clock.NanosecondsEach(start, count);
            Sums.Check("raw consumer", sum, Message64.ExpectedSum(count));
        }

        BenchStore.Delete(path);
        return nanoseconds;
    }

    private HostedQueue Open(string name, long countMax) => new(context.Path(name), countMax, isBatch);
}

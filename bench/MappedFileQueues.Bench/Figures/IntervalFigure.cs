using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Nanoseconds for each append, Exclusive, default segments and preparing, while a flush runs every 100 ms. The raw column is
/// *the same append at PageCache*: the ratio is what the flushes cost a producer that does not wait for them.
/// </summary>
internal sealed class IntervalFigure(ChildContext context)
{
    public const string Name = "interval_append";

    private const int WarmUpCount = 500;

    /// <summary>Enough for several flushes in each repetition.</summary>
    private const long CountMin = 20_000_000;

    private static readonly TimeSpan s_interval = TimeSpan.FromMilliseconds(100);

    private long Count => context.Messages < BenchSettings.MessagesDefaultQuick ? context.Messages : CountMin;

    public IReadOnlyList<Samples> Measure()
    {
        string path = context.Path("warm-store");
        using (StructQueue queue = new(Options(path, DurabilityLevel.Interval)))
            WarmUp.UntilCompiled(() => queue.Append(WarmUpCount));
        BenchStore.Delete(path);
        return [Interleaved.Run(
            Name, "ns", context.Repetitions,
            () => MeasureMean(DurabilityLevel.PageCache), () => MeasureMean(DurabilityLevel.Interval))];
    }

    private static MappedFileQueueOptions Options(string path, DurabilityLevel level) => new()
    {
        StorePath = path,
        ProducerMode = ProducerMode.Exclusive,
        Durability = level,
        FlushInterval = s_interval,
    };

    private double MeasureMean(DurabilityLevel level)
    {
        string path = context.Path("store");
        double nanoseconds;
        using (StructQueue queue = new(Options(path, level)))
        {
            queue.Append(WarmUpCount);
            long start = Clock.Now;
            queue.Append(Count);
            nanoseconds = Clock.NanosecondsEach(start, Count);
            ulong expected = Message64.ExpectedSum(WarmUpCount) + Message64.ExpectedSum(Count);
            Sums.Check($"{Name} at {level}", queue.Read(WarmUpCount + Count), expected);
        }

        BenchStore.Delete(path);
        return nanoseconds;
    }
}

using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// What rolling costs. `append_roll`: nanoseconds for each append to prepared segments of the default length; its raw column is
/// the same append to one segment that holds everything, so that the ratio is the roll's share. `append_roll_p9999`: the pause
/// that one append in 10,000 exceeds while the store prepares by itself, beside a bare log that rolls over files which a
/// thread of its own prepares.
/// </summary>
internal sealed class RollFigure(ChildContext context)
{
    public const string Name = "append_roll";
    public const string PauseName = "append_roll_p9999";

    private const int WarmUpCount = 500;

    private Message64 _message = Message64.Create();

    public IReadOnlyList<Samples> Measure()
    {
        CompileAll();
        return
        [
            Interleaved.Run(
                Name, "ns", context.Repetitions,
                () => MeasureMean(BenchStore.SegmentLengthFor(context.Messages)), () => MeasureMean(null)),
            Interleaved.Run(PauseName, "us", context.Repetitions, MeasureRawPause, MeasurePause),
        ];
    }

    private void CompileAll()
    {
        string path = context.Path("warm-store");
        long[] took = new long[WarmUpCount];
        using (StructQueue queue = new(Options(path, null)))
        {
            WarmUp.UntilCompiled(() => queue.Append(WarmUpCount));
            WarmUp.UntilCompiled(() => queue.AppendTimed(ref _message, took));
        }

        BenchStore.Delete(path);
        using RawRollingLog log = new(context.Task.Directory, 1_000_000);
        log.Append(ref _message, new long[100_000]);
    }

    private static MappedFileQueueOptions Options(string path, long? segmentLength)
    {
        MappedFileQueueOptions options = new()
        {
            StorePath = path,
            ProducerMode = ProducerMode.Exclusive,
            Durability = DurabilityLevel.PageCache,
        };
        if (segmentLength is { } length)
            options.SegmentSize = length;
        return options;
    }

    private double MeasureMean(long? segmentLength)
    {
        string path = context.Path("store");
        double nanoseconds;
        using (StructQueue queue = new(Options(path, segmentLength)))
        {
            queue.Prepare(RawFile.LengthFor(context.Messages));
            long start = Clock.Now;
            queue.Append(context.Messages);
            nanoseconds = Clock.NanosecondsEach(start, context.Messages);
        }

        BenchStore.Delete(path);
        return nanoseconds;
    }

    private double MeasureRawPause()
    {
        long[] took = new long[context.Messages];
        using (RawRollingLog log = new(context.Task.Directory, context.Messages))
            log.Append(ref _message, took);
        return Pause(took);
    }

    private double MeasurePause()
    {
        string path = context.Path("store");
        long[] took = new long[context.Messages];
        using (StructQueue queue = new(Options(path, null)))
        {
            queue.AppendTimed(ref _message, took);
            Sums.Check(PauseName, queue.Read(took.Length), Message64.ExpectedSum(took.Length));
        }

        BenchStore.Delete(path);
        return Pause(took);
    }

    private static double Pause(long[] took) => Clock.Nanoseconds(Quantiles.Of(took, 0.9999)) / 1000;
}

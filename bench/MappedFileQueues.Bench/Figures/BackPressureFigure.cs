using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages a second from one process to another, with blocks and pages made before the clock starts: with a limit of 1 MiB of
/// unconsumed bytes, beside the same store without a limit (which is in the place of the raw loop).
/// </summary>
internal sealed class BackPressureFigure(ChildContext context) : PairFigure(context)
{
    public const string FigureName = "backpressure_pair";

    private const long Limit = 1 << 20;

    protected override IReadOnlyList<(string Name, string Unit)> Values => [(Name, "msg/s")];

    protected override long WarmUpCount => 50_000;

    protected override double[] MeasureRaw(long count) => Measure(count, maxUnconsumedBytes: 0);

    protected override double[] MeasureQueue(long count) => Measure(count, Limit);

    private double[] Measure(long count, long maxUnconsumedBytes)
    {
        string path = Context.Path("store");
        MappedFileQueueOptions options = BenchStore.Spinning(path, ProducerMode.Exclusive);
        options.SegmentSize = BenchStore.SegmentLengthFor(count);
        options.MaxUnconsumedBytes = maxUnconsumedBytes;
        if (!IsFirst)
            Rendezvous.Meet();
        double rate;
        using (StructQueue queue = new(options))
        {
            if (IsFirst)
            {
                queue.AttachProducer();
                queue.Prepare(RawFile.LengthFor(count));
                Rendezvous.Meet();
            }
            else
            {
                // Its cursor counts from here on.
                queue.SeekToStart();
            }

            rate = Stream(queue, count);
            Rendezvous.Meet();
        }

        Rendezvous.Meet();
        if (IsFirst)
            BenchStore.Delete(path);
        return [rate];
    }
}

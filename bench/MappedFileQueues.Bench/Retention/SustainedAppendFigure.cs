using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Retention;

/// <summary>
/// Nanoseconds for each append to a store that only grows, with the default options and nothing prepared by hand, beside a bare
/// log over new files that a thread prepares. Memory that the host has to give back is taken before each run.
/// </summary>
internal sealed class SustainedAppendFigure(ChildContext context)
{
    public const string Name = "append_sustained";

    private const long FullCount = 100_000_000;

    private Message64 _message = Message64.Create();

    private long Count => context.Task.RawOnly ? context.Messages : BenchStore.CountFor(context.Messages, FullCount);

    public IReadOnlyList<Samples> Measure() =>
        [Interleaved.Run(Name, "ns", context.Repetitions, MeasureRaw, context.Task.RawOnly ? null : MeasureQueue)];

    private double MeasureRaw()
    {
        Ballast.Take(RawFile.LengthFor(Count));
        using RawRollingLog log = new(context.Task.Directory, Count);
        long start = Clock.Now;
        log.Append(ref _message, Count);
        double nanoseconds = Clock.NanosecondsEach(start, Count);
        log.Check(Count);
        return nanoseconds;
    }

    private double MeasureQueue()
    {
        string path = context.Path("store");
        double nanoseconds;
        Ballast.Take(RawFile.LengthFor(Count));
        using (StructQueue queue = new(new MappedFileQueueOptions { StorePath = path }))
        {
            long start = Clock.Now;
            queue.Append(Count);
            nanoseconds = Clock.NanosecondsEach(start, Count);
            Sums.Check(Name, queue.Read(Count), Message64.ExpectedSum(Count));
        }

        BenchStore.Delete(path);
        return nanoseconds;
    }
}

using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Nanoseconds for each append, beside the bare copy. Each repetition has a new store and a new raw file, and reads back what was
/// appended. Both have all blocks allocated and all pages touched before the clock starts; cold, neither has any.
/// </summary>
internal sealed class AppendFigure(ChildContext context, Func<string, long, BenchQueue> open, RawSides? raw = null)
{
    private readonly RawSides _raw = raw ?? RawSides.Bare;

    private const int WarmUpCount = 500;

    private Message64 _message = Message64.Create();

    public IReadOnlyList<Samples> Measure()
    {
        CompileAll();
        Func<double>? ours = context.Task.RawOnly ? null : () => MeasureQueue(context.Messages);
        return [Interleaved.Run(context.Task.Role, "ns", context.Repetitions, () => MeasureRaw(context.Messages), ours)];
    }

    private void CompileAll()
    {
        string storePath = context.Path("warm-store");
        using (RawFile file = RawFile.Create(context.Path("warm-raw"), RawFile.LengthFor(WarmUpCount), allocates: true))
        using (BenchQueue? queue = context.Task.RawOnly ? null : open(storePath, WarmUpCount))
        {
            WarmUp.UntilCompiled(() =>
            {
                Copy(file, WarmUpCount);
                queue?.Append(WarmUpCount);
            });
        }

        if (Directory.Exists(storePath))
            BenchStore.Delete(storePath);
    }

    private double MeasureRaw(long count)
    {
        using RawFile file = RawFile.Create(context.Path("raw"), RawFile.LengthFor(count), allocates: !context.Task.IsCold);
        if (!context.Task.IsCold)
            file.TouchForWriting();
        long start = Clock.Now;
        Copy(file, count);
        double nanoseconds = Clock.NanosecondsEach(start, count);
        CheckRaw(file, count);
        return nanoseconds;
    }

    private double MeasureQueue(long count)
    {
        string path = context.Path("store");
        double nanoseconds;
        using (BenchQueue queue = open(path, count))
        {
            if (!context.Task.IsCold)
                queue.Prepare(RawFile.LengthFor(count));
            long start = Clock.Now;
            queue.Append(count);
            nanoseconds = Clock.NanosecondsEach(start, count);
            Sums.Check(context.Task.Role, queue.Read(count), Message64.ExpectedSum(count));
        }

        BenchStore.Delete(path);
        return nanoseconds;
    }

    private unsafe void Copy(RawFile file, long count) => _raw.Copy(file.Start, ref _message, count);

    private unsafe void CheckRaw(RawFile file, long count) =>
        Sums.Check("raw copy", _raw.Read(file.Start, count), Message64.ExpectedSum(count));
}

using MappedFileQueues.Bench.Files;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Nanoseconds for each read of messages that are there, beside the bare read of the same bytes. Both sides have read all of
/// it once before, so that neither meets a page fault. Cold, both files are opened anew and lie on the disk only.
/// </summary>
internal sealed class ReadFigure(ChildContext context, Func<string, long, BenchQueue> open, RawSides? raw = null)
{
    private readonly RawSides _raw = raw ?? RawSides.Bare;

    private const int WarmUpCount = 500;

    private Message64 _message = Message64.Create();

    public IReadOnlyList<Samples> Measure()
    {
        long count = context.Messages;
        using RawFile file = RawFile.Create(context.Path("raw"), RawFile.LengthFor(count), allocates: true);
        Fill(file, count);
        if (context.Task.RawOnly)
        {
            WarmUp.UntilCompiled(() => ReadRaw(file, Math.Min(WarmUpCount, count)));
            return [Interleaved.Run(context.Task.Role, "ns", context.Repetitions, () => MeasureRaw(file, count), null)];
        }

        string path = context.Path("store");
        if (context.Task.IsCold)
            return MeasureCold(file, path, count);
        IReadOnlyList<Samples> samples;
        using (BenchQueue queue = open(path, count))
        {
            queue.Append(count);
            CompileAll(file, queue, (int)Math.Min(WarmUpCount, count));
            MeasureRaw(file, count);
            MeasureQueue(queue, count);
            samples =
            [
                Interleaved.Run(
                    context.Task.Role,
                    "ns",
                    context.Repetitions,
                    () => MeasureRaw(file, count),
                    () => MeasureQueue(queue, count)),
            ];
        }

        BenchStore.Delete(path);
        return samples;
    }

    private IReadOnlyList<Samples> MeasureCold(RawFile filled, string path, long count)
    {
        using (BenchQueue queue = open(path, count))
        {
            queue.Append(count);
            CompileAll(filled, queue, (int)Math.Min(WarmUpCount, count));
        }

        string raw = context.Path("raw-cold");
        File.Copy(context.Path("raw"), raw);
        Samples samples = Interleaved.Run(
            context.Task.Role,
            "ns",
            context.Repetitions,
            () =>
            {
                DropCache([raw]);
                using RawFile file = RawFile.Open(raw);
                return MeasureRaw(file, count);
            },
            () =>
            {
                DropCache(Directory.EnumerateFiles(path, "*.log", SearchOption.AllDirectories));
                using BenchQueue queue = open(path, count);
                return MeasureQueue(queue, count);
            });
        File.Delete(raw);
        BenchStore.Delete(path);
        return [samples];
    }

    private static void DropCache(IEnumerable<string> paths)
    {
        foreach (string path in paths)
        {
            if (!ReadPeers.TryDropCache(path))
                throw new ToolException("Cold files can be measured on Linux only.");
        }
    }

    private void CompileAll(RawFile file, BenchQueue queue, int count) => WarmUp.UntilCompiled(() =>
    {
        ReadRaw(file, count);
        queue.SeekToStart();
        queue.Read(count);
    });

    private double MeasureRaw(RawFile file, long count)
    {
        long start = Clock.Now;
        ulong sum = ReadRaw(file, count);
        double nanoseconds = Clock.NanosecondsEach(start, count);
        Sums.Check("raw read", sum, Message64.ExpectedSum(count));
        return nanoseconds;
    }

    private double MeasureQueue(BenchQueue queue, long count)
    {
        queue.SeekToStart();
        long start = Clock.Now;
        ulong sum = queue.Read(count);
        double nanoseconds = Clock.NanosecondsEach(start, count);
        Sums.Check(context.Task.Role, sum, Message64.ExpectedSum(count));
        return nanoseconds;
    }

    private unsafe void Fill(RawFile file, long count) => _raw.Copy(file.Start, ref _message, count);

    private unsafe ulong ReadRaw(RawFile file, long count) => _raw.Read(file.Start, count);
}

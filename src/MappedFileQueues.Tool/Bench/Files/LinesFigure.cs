using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Processes;

namespace MappedFileQueues.Tool.Bench.Files;

/// <summary>
/// Nanoseconds for each line of 100 bytes, with the closing, no flush to the disk. From one thread: beside the bare loop, beside
/// FileStream with its default buffer, and beside the best FileStream of 4, 64 and 1,024 KiB. From four: beside the best of these
/// FileStreams under a lock.
/// </summary>
internal sealed class LinesFigure(ChildContext context, int threadCount)
{
    public const string OneName = "lines_1";
    public const string DefaultName = "lines_1_filestream";
    public const string BestName = "lines_1_filestream_best";
    public const string FourName = "lines_4";

    /// <summary>What FileStream has when nobody names a length.</summary>
    private const int DefaultBufferLength = 4096;

    private const int WarmUpCount = 200;

    private static readonly int[] s_bufferLengths = [DefaultBufferLength, 64 * 1024, 1024 * 1024];

    public IReadOnlyList<Samples> Measure()
    {
        WarmUp.UntilCompiled(() => _ = MeasureAll(WarmUpCount));
        long count = context.Bytes / LineRun.LineLength / threadCount * threadCount;
        _ = MeasureAll(count);
        List<(double Bare, double[] Streams, double Ours)> all = [];
        for (int i = 0; i < context.Repetitions; i++)
            all.Add(MeasureAll(count));

        double[] ours = [.. all.Select(run => run.Ours)];
        int best = Enumerable.Range(0, s_bufferLengths.Length)
            .MinBy(i => Statistics.Median([.. all.Select(run => run.Streams[i])]));
        double[] bestStream = [.. all.Select(run => run.Streams[best])];
        if (threadCount > 1)
            return [new Samples(FourName, "ns", bestStream, ours)];
        return
        [
            new Samples(OneName, "ns", [.. all.Select(run => run.Bare)], ours),
            new Samples(DefaultName, "ns", [.. all.Select(run => run.Streams[0])], ours),
            new Samples(BestName, "ns", bestStream, ours),
        ];
    }

    /// <summary>Every side once, in turn.</summary>
    private (double Bare, double[] Streams, double Ours) MeasureAll(long count)
    {
        string path = context.Path("lines");
        bool isLocked = threadCount > 1;
        double bare = isLocked ? 0 : LineRun.Write(path, count, threadCount, BareLines.Open);
        double[] streams =
        [
            .. s_bufferLengths.Select(length =>
                LineRun.Write(path, count, threadCount, LineRun.FileStreamOf(length, isLocked))),
        ];
        return (bare, streams, LineRun.Write(path, count, threadCount, LineRun.OpenOurs));
    }
}

using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// Nanoseconds for each line of 100 bytes, with the closing. Over blocks that were written before and without a flush, from one
/// thread: beside the bare loop, beside FileStream with its default buffer, and beside the best FileStream of 4, 64 and 1,024
/// KiB. From four, and into new files: beside the best of these FileStreams, under a lock where there are four.
/// </summary>
internal sealed class LinesFigure(ChildContext context, int threadCount, LineFile kind)
{
    public const string OneName = "lines_1";
    public const string DefaultName = "lines_1_filestream";
    public const string BestName = "lines_1_filestream_best";
    public const string FourName = "lines_4";

    /// <summary>What FileStream has when nobody names a length.</summary>
    private const int DefaultBufferLength = 4096;

    private const int WarmUpCount = 200;

    private static readonly int[] s_bufferLengths = [DefaultBufferLength, 64 * 1024, 1024 * 1024];

    private bool HasBare => threadCount == 1 && kind == LineFile.Written;

    public static string NameOf(int threadCount, LineFile kind) => (threadCount == 1 ? OneName : FourName) + kind.Suffix;

    public IReadOnlyList<Samples> Measure()
    {
        // A flush takes as long whatever code calls it: the code is warmed without.
        LineFile warm = kind.IsFlushed ? LineFile.New : kind;
        WarmUp.UntilCompiled(() => _ = MeasureAll(warm, WarmUpCount, run: 0));
        long count = context.Bytes / LineRun.LineLength / threadCount * threadCount;
        _ = MeasureAll(kind, count, run: 0);
        double[][] all = [.. Enumerable.Range(0, context.Repetitions).Select(run => MeasureAll(kind, count, run))];

        double[] ours = Side(all, s_bufferLengths.Length);
        double[][] streams = [.. s_bufferLengths.Select((_, index) => Side(all, index))];
        double[] bestStream = streams.MinBy(FigureResult.Median)!;
        if (!HasBare)
            return [new Samples(NameOf(threadCount, kind), "ns", bestStream, ours)];
        return
        [
            new Samples(OneName, "ns", Side(all, s_bufferLengths.Length + 1), ours),
            new Samples(DefaultName, "ns", streams[0], ours),
            new Samples(BestName, "ns", bestStream, ours),
        ];
    }

    private static double[] Side(double[][] all, int side) => [.. all.Select(run => run[side])];

    /// <summary>
    /// Every side once, in another order each time: what a side leaves behind, work for the disk above all, is for the next one.
    /// The streams, then ours, then the bare loop.
    /// </summary>
    private double[] MeasureAll(LineFile file, long count, int run)
    {
        List<LineRun.LineOpener> sides =
        [
            .. s_bufferLengths.Select(length => LineRun.FileStreamOf(file, length, isLocked: threadCount > 1)),
            LineRun.OursOf(file),
        ];
        if (HasBare)
            sides.Add(BareLines.Open);
        double[] times = new double[sides.Count];
        int[] order = [.. Enumerable.Range(0, sides.Count)];
        new Random(run).Shuffle(order);
        foreach (int side in order)
        {
            // What a new file takes of the system's memory is what was used and freed just before, on every side.
            if (file.IsNew)
                Ballast.Take(count * LineRun.LineLength);
            times[side] = LineRun.Write(context.Path("lines"), count, threadCount, sides[side]);
        }

        return times;
    }
}

using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Processes;

namespace MappedFileQueues.Tool.Bench.Files;

/// <summary>
/// Nanoseconds for each line of 100 bytes, with the closing. Over blocks that were written before and without a flush, from one
/// thread: beside the bare loop, beside FileStream with its default buffer, and beside the best FileStream of 4, 64 and 1,024 KiB.
/// From four, and into new files: beside the best of these FileStreams, under a lock where there are four.
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
        WarmUp.UntilCompiled(() => _ = MeasureAll(warm, WarmUpCount));
        long count = context.Bytes / LineRun.LineLength / threadCount * threadCount;
        _ = MeasureAll(kind, count);
        List<(double Bare, double[] Streams, double Ours)> all = [];
        for (int i = 0; i < context.Repetitions; i++)
            all.Add(MeasureAll(kind, count));

        double[] ours = [.. all.Select(run => run.Ours)];
        int best = Enumerable.Range(0, s_bufferLengths.Length)
            .MinBy(i => Statistics.Median([.. all.Select(run => run.Streams[i])]));
        double[] bestStream = [.. all.Select(run => run.Streams[best])];
        if (!HasBare)
            return [new Samples(NameOf(threadCount, kind), "ns", bestStream, ours)];
        return
        [
            new Samples(OneName, "ns", [.. all.Select(run => run.Bare)], ours),
            new Samples(DefaultName, "ns", [.. all.Select(run => run.Streams[0])], ours),
            new Samples(BestName, "ns", bestStream, ours),
        ];
    }

    /// <summary>Every side once, in turn.</summary>
    private (double Bare, double[] Streams, double Ours) MeasureAll(LineFile file, long count)
    {
        double bare = HasBare ? Write(file, count, BareLines.Open) : 0;
        double[] streams =
        [
            .. s_bufferLengths.Select(length => Write(file, count, LineRun.FileStreamOf(file, length, isLocked: threadCount > 1))),
        ];
        return (bare, streams, Write(file, count, LineRun.OursOf(file)));
    }

    private double Write(LineFile file, long count, LineRun.LineOpener open)
    {
        // What a new file takes of the system's memory is what was used and freed just before, on every side.
        if (file.IsNew)
            Ballast.Take(count * LineRun.LineLength);
        return LineRun.Write(context.Path("lines"), count, threadCount, open);
    }
}

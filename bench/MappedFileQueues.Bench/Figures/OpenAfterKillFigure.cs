using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Milliseconds to open a store whose producer was killed with up to 100 MB that nobody had flushed, in a fresh process,
/// until it can append; beside a bare read of as many bytes, also in a fresh process, since opening has to walk over them. The
/// message count is checked afterwards: nothing that was published may be missing.
/// </summary>
internal static class OpenAfterKillFigure
{
    public const string Name = "open_after_kill";
    public const string FillRole = "open_after_kill_fill";
    public const string RawRole = "open_after_kill_raw";
    public const string QueueRole = "open_after_kill_queue";

    private const string Ready = "filled";
    private const long CountMax = 100_000_000 / Message64.FrameLength;

    public static IReadOnlyList<Samples> Measure(BenchRun run) =>
    [
        Interleaved.Run(Name, "ms", run.Settings.Repetitions, () => MeasureRaw(run), () => MeasureQueue(run)),
    ];

    /// <summary>Runs in a child, which is killed when it has said that it is ready.</summary>
    public static IReadOnlyList<Samples> Fill(ChildContext context)
    {
        StructQueue queue = new(Options(context));
        queue.Append(CountOf(context));
        Console.Out.WriteLine(Ready);
        Thread.Sleep(Timeout.Infinite);
        GC.KeepAlive(queue);
        return [];
    }

    /// <summary>Runs in a child.</summary>
    public static IReadOnlyList<Samples> OpenStore(ChildContext context)
    {
        long start = Clock.Now;
        StructQueue queue = new(Options(context));
        queue.AttachProducer();
        double milliseconds = Clock.MillisecondsSince(start);
        long count = CountOf(context);
        Sums.Check(Name, queue.Read(count), Message64.ExpectedSum(count));
        queue.Dispose();
        BenchStore.Delete(context.Path("store"));
        return [new Samples(Name, "ms", [milliseconds], [])];
    }

    /// <summary>Runs in a child.</summary>
    public static unsafe IReadOnlyList<Samples> ReadFile(ChildContext context)
    {
        long count = CountOf(context);
        Message64 message = Message64.Create();
        using RawFile file = RawFile.Create(context.Path("raw"), RawFile.LengthFor(count), allocates: true);
        RawLoops.Copy(file.Start, ref message, 0, count);
        long start = Clock.Now;
        using RawFile again = RawFile.Open(context.Path("raw"));
        ulong sum = RawLoops.Read(again.Start, count);
        double milliseconds = Clock.MillisecondsSince(start);
        Sums.Check("raw read", sum, Message64.ExpectedSum(count));
        return [new Samples(Name, "ms", [milliseconds], [])];
    }

    private static double MeasureRaw(BenchRun run)
    {
        using BenchChild child = run.StartChild(RawRole);
        return child.ReadSamples()[0].Raw[0];
    }

    private static double MeasureQueue(BenchRun run)
    {
        using (BenchChild producer = run.StartChild(FillRole))
        {
            producer.WaitForLine(Ready);
            producer.Kill();
        }

        using BenchChild opener = run.StartChild(QueueRole);
        return opener.ReadSamples()[0].Raw[0];
    }

    private static long CountOf(ChildContext context) => Math.Min(context.Messages, CountMax);

    private static MappedFileQueueOptions Options(ChildContext context) => new() { StorePath = context.Path("store") };
}

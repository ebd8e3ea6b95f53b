using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Milliseconds from the start of a process until it has opened a store of 10 GiB that was closed in order, appended a message
/// and read the oldest one. Beside it a process that maps a file of that length, writes at its end and reads at its start.
/// </summary>
internal static class OpenCleanFigure
{
    public const string Name = "open_clean_10gib";
    public const string FillRole = "open_clean_10gib_fill";
    public const string RawRole = "open_clean_10gib_raw";
    public const string QueueRole = "open_clean_10gib_queue";

    private const long FullCount = (10L << 30) / Message64.FrameLength;

    public static IReadOnlyList<Samples> Measure(BenchRun run)
    {
        using (BenchChild filler = run.StartChild(FillRole))
            filler.ReadSamples();
        Samples samples = Interleaved.Run(
            Name, "ms", run.Settings.Repetitions, () => MeasureRole(run, RawRole), () => MeasureRole(run, QueueRole));
        BenchStore.Delete(Path.Combine(run.Directory, "store"));
        File.Delete(Path.Combine(run.Directory, "raw"));
        return [samples];
    }

    /// <summary>Runs in a child.</summary>
    public static IReadOnlyList<Samples> Fill(ChildContext context)
    {
        long count = BenchStore.CountFor(context.Messages, FullCount);
        using (StructQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = context.Path("store"),
            ProducerMode = ProducerMode.Exclusive,
        }))
            queue.Append(count);
        using FileStream raw = File.Create(context.Path("raw"));
        raw.SetLength(RawFile.LengthFor(count));
        return [];
    }

    /// <summary>Runs in a child; reports when it was through, by the clock that all processes share.</summary>
    public static IReadOnlyList<Samples> OpenStore(ChildContext context)
    {
        using MappedFileQueue<Message64> queue = new(new MappedFileQueueOptions { StorePath = context.Path("store") });
        Message64 message = Message64.Create();
        queue.Producer.Produce(ref message);
        queue.Consumer.Consume(out Message64 first);
        double end = Clock.Now;
        Sums.Check(Name, first.Sum(), Message64.ExpectedSum(1));
        return [new Samples(Name, "ms", [end], [])];
    }

    /// <summary>Runs in a child.</summary>
    public static unsafe IReadOnlyList<Samples> MapFile(ChildContext context)
    {
        using RawFile file = RawFile.Open(context.Path("raw"));
        Message64 message = Message64.Create();
        *(Message64*)(file.Start + file.Length - Message64.Length) = message;
        ulong sum = ((Message64*)file.Start)->Sum();
        double end = Clock.Now;
        Sums.Check(Name, sum, 0);
        return [new Samples(Name, "ms", [end], [])];
    }

    private static double MeasureRole(BenchRun run, string role)
    {
        long start = Clock.Now;
        using BenchChild child = run.StartChild(role);
        return Clock.Nanoseconds((long)child.ReadSamples()[0].Raw[0] - start) / 1e6;
    }
}

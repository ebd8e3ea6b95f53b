using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Milliseconds to make a store and append its first message, in a process that was just started: its first store (with all
/// that the JIT compiler does for it), a second one (the store's own work), and the whole process from outside. Beside it
/// a file that is made, mapped and written to in the same way.
/// </summary>
internal static class OpenEmptyFigure
{
    public const string Name = "open_empty";
    public const string WarmName = "open_empty_warm";
    public const string ProcessName = "open_empty_process";
    public const string RawRole = "open_empty_raw";
    public const string QueueRole = "open_empty_queue";

    /// <summary>What a new store has allocated at first.</summary>
    private const int FirstStep = 256 * 1024;

    public static IReadOnlyList<Samples> Measure(BenchRun run)
    {
        int repetitions = run.Settings.Repetitions;
        string[] names = [Name, WarmName, ProcessName];
        double[][] raw = new double[repetitions][];
        double[][] ours = new double[repetitions][];
        for (int i = 0; i < repetitions; i++)
        {
            raw[i] = MeasureProcess(run, RawRole);
            ours[i] = MeasureProcess(run, QueueRole);
        }

        return
        [
            .. names.Select((name, index) => new Samples(
                name, "ms", [.. raw.Select(values => values[index])], [.. ours.Select(values => values[index])])),
        ];
    }

    /// <summary>Runs in a child.</summary>
    public static IReadOnlyList<Samples> MakeFiles(ChildContext context)
    {
        double first = MakeFile(context.Path("raw-0"));
        double second = MakeFile(context.Path("raw-1"));
        return [new Samples(Name, "ms", [first, second], [])];
    }

    /// <summary>Runs in a child.</summary>
    public static IReadOnlyList<Samples> MakeStores(ChildContext context)
    {
        double first = MakeStore(context.Path("store-0"));
        double second = MakeStore(context.Path("store-1"));
        return [new Samples(Name, "ms", [first, second], [])];
    }

    private static double[] MeasureProcess(BenchRun run, string role)
    {
        long start = Clock.Now;
        using BenchChild child = run.StartChild(role);
        double[] inside = child.ReadSamples()[0].Raw;
        return [inside[0], inside[1], Clock.MillisecondsSince(start)];
    }

    private static unsafe double MakeFile(string path)
    {
        Message64 message = Message64.Create();
        long start = Clock.Now;
        using RawFile file = RawFile.Create(path, FirstStep, allocates: true);
        RawLoops.Copy(file.Start, ref message, 0, 1);
        return Clock.MillisecondsSince(start);
    }

    private static double MakeStore(string path)
    {
        Message64 message = Message64.Create();
        long start = Clock.Now;
        MappedFileQueue<Message64> queue = new(new MappedFileQueueOptions { StorePath = path });
        queue.Producer.Produce(ref message);
        double milliseconds = Clock.MillisecondsSince(start);
        queue.Dispose();
        BenchStore.Delete(path);
        return milliseconds;
    }
}

using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Processes;

namespace MappedFileQueues.Tool.Bench.DotnetIo;

/// <summary>Measures a table in a process of its own: every way once, in turn, as often as the run repeats.</summary>
internal static class IoMeasurement
{
    /// <summary>Behind the name of a way: what it allocates.</summary>
    public const string AllocationSuffix = "|allocated";

    private const int WarmUpLength = 64 * 1024;
    private const int WarmUpOperations = 4;
    private const int QuickShare = 5;

    public static IReadOnlyList<IoTable> Tables { get; } = [.. IoReadTables.All, .. IoWriteTables.All];

    public static IReadOnlyList<Samples> Measure(ChildContext context)
    {
        IoTable table = Tables.Single(table => table.Role == context.Task.Role);
        using IoFiles files = new(context.Task.Directory, WarmUpLength);
        IReadOnlyList<IoCase> cases = table.Cases(files);
        WarmUp.UntilCompiled(() =>
        {
            foreach (IoCase way in cases)
                Repeat(way, Math.Min(table.Operations, WarmUpOperations));
        });

        files.SetLength(context.Bytes);
        int operations = context.Task.IsQuick ? table.Operations / QuickShare : table.Operations;
        double[][] values = [.. cases.Select(_ => new double[context.Repetitions])];
        double[][] allocated = [.. cases.Select(_ => new double[context.Repetitions])];
        foreach (IoCase way in cases)
            Repeat(way, operations);
        for (int repetition = 0; repetition < context.Repetitions; repetition++)
        {
            foreach ((int index, IoCase way) in cases.Index())
            {
                long before = GC.GetTotalAllocatedBytes(precise: true);
                long start = Clock.Now;
                Repeat(way, operations);
                double milliseconds = Clock.MillisecondsSince(start);
                long bytes = GC.GetTotalAllocatedBytes(precise: true) - before;
                allocated[index][repetition] = bytes / (double)Math.Max(1, operations);
                values[index][repetition] = operations > 0
                    ? milliseconds * 1e3 / operations
                    : files.Length / milliseconds / 1e3;
            }
        }

        return
        [
            .. cases.SelectMany((way, index) => new Samples[]
            {
                new(way.Title, table.Unit, [], values[index]),
                new(way.Title + AllocationSuffix, "B", [], allocated[index]),
            }),
        ];
    }

    private static void Repeat(IoCase way, int operations)
    {
        way.Run();
        for (int i = 1; i < operations; i++)
            way.Run();
    }
}

using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>Measures a table in a process of its own: every way once, in turn, as often as the run repeats.</summary>
internal static class IoMeasurement
{
    /// <summary>Behind the name of a way: what it allocates.</summary>
    public const string AllocationSuffix = "|allocated";

    /// <summary>The unit of what is no measurement but a sentence, which is its name.</summary>
    public const string NoteUnit = "note";

    private const int WarmUpLength = 64 * 1024;
    private const int WarmUpOperations = 4;
    private const int QuickShare = 5;

    public static IReadOnlyList<IoTable> Tables { get; } = [.. IoReadTables.All, .. IoWriteTables.All, .. IoFlushTables.All];

    public static IReadOnlyList<Samples> Measure(ChildContext context)
    {
        IoTable table = Tables.Single(table => table.Role == context.Task.Role);
        using IoFiles files = new(context.Task.Directory, WarmUpLength);
        IoCases cases = table.Cases(files);
        if (table.IsFlushed)
            RepeatAll(table, cases);
        else
            WarmUp.UntilCompiled(() => RepeatAll(table, cases));

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
                table.Check?.Invoke(files);
                way.Check?.Invoke();
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
            .. cases.Notes.Select(Note),
        ];
    }

    /// <summary>A sentence on its way to who reads the table.</summary>
    public static Samples Note(string sentence) => new(sentence, NoteUnit, [], []);

    private static void RepeatAll(IoTable table, IoCases cases)
    {
        foreach (IoCase way in cases)
            Repeat(way, Math.Min(table.Operations, WarmUpOperations));
    }

    private static void Repeat(IoCase way, int operations)
    {
        way.Run();
        for (int i = 1; i < operations; i++)
            way.Run();
    }
}

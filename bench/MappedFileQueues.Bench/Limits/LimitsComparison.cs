using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Bench.Retention;

namespace MappedFileQueues.Bench.Limits;

/// <summary>
/// The raw loops of this program beside those of bench/limits.c: only if they agree is the raw column of a bench run the limit
/// of the machine, and not a slow loop that flatters the queue.
/// </summary>
internal static class LimitsComparison
{
    /// <summary>How far the two may be apart.</summary>
    private const double Tolerance = 0.15;

    /// <summary>Each side is measured this often, in turn, with its repetitions inside.</summary>
    private const int Turns = 3;

    private static readonly (string Role, int ProcessCount, string[] Names)[] s_loops =
    [
        ("append_exclusive", 1, ["copy"]),
        ("read_verify", 1, ["read"]),
        (LimitLoops.FetchAddRole, 1, [LimitLoops.FetchAddRole]),
        ("append_shared_2proc", 2, ["fetch_add_2"]),
        ("proc_to_proc", 2, ["pipe"]),
        ("proc_to_proc_cold", 2, ["pipe_cold"]),
        ("roundtrip", 2, ["roundtrip_p50", "roundtrip_p99", "roundtrip_p999"]),
        (LimitLoops.WakeBackRole, 2, [LimitLoops.WakeBackRole]),
        (LimitLoops.FlushRole, 1, [LimitLoops.FlushRole]),
        (SustainedAppendFigure.Name, 1, [SustainedAppendFigure.Name]),
        (RecycledAppendFigure.RawRole, 1, [RecycledAppendFigure.Name]),
    ];

    public static IEnumerable<string> Names => s_loops.SelectMany(loop => loop.Names);

    /// <summary>Whether the two sides of a result are as near to each other as they should be.</summary>
    public static bool Agree(FigureResult result) => result.Ratio is { } ratio && Math.Abs(ratio - 1) <= Tolerance;

    /// <summary>A result for each wanted loop: Value is this program's, Raw the C program's.</summary>
    public static IEnumerable<FigureResult> Run(BenchRun run, IReadOnlySet<string> wanted)
    {
        LimitsProgram program = LimitsProgram.Compile(run);
        foreach ((string role, int processCount, string[] names) in s_loops.Where(loop => loop.Names.Any(wanted.Contains)))
        {
            List<double[]> c = [];
            List<double[]> ours = [];
            List<string> units = [];
            for (int turn = 0; turn < Turns; turn++)
            {
                IReadOnlyDictionary<string, double> values = program.Measure(names);
                c.Add([.. names.Select(name => values[name])]);
                IReadOnlyList<Samples> samples = run.Measure(role, processCount, rawOnly: true);
                ours.Add([.. samples.Select(sample => FigureResult.Median(sample.Raw))]);
                units = [.. samples.Select(sample => sample.Unit)];
            }

            for (int i = 0; i < names.Length; i++)
            {
                int index = i;
                yield return FigureResult.Of(new Samples(
                    names[i], units[i], [.. c.Select(values => values[index])], [.. ours.Select(values => values[index])]));
            }
        }
    }
}

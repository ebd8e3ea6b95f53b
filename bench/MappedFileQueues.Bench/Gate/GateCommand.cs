using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.Gate;

/// <summary>
/// The group `gate`: holds the hot path to the ratios of <see cref="GateTable"/>. It compares minima: whatever disturbs a
/// repetition makes it longer, and never shorter. A row that fails is measured again, since the disturbance may have lasted as
/// long as the row; what is slower by itself stays slower.
/// </summary>
internal static class GateCommand
{
    private const long Messages = 1_000_000;
    private const int Repetitions = 9;
    private const int RoundsMax = 3;

    private const string Legend = "The ratio is that of the two minima.";

    private static readonly BenchOptions s_options = new("figure", "As without: the gate is short anyway.");

    public static Command Create()
    {
        Command command = new("gate", "Fails when a hot path is slower beside its raw loop than the checked-in table says.");
        s_options.AddTo(command, _ => Names);
        command.SetAction(Run);
        return command;
    }

    private static IEnumerable<string> Names => GateTable.Rows.Select(row => row.Name);

    private static int Run(ParseResult parsed)
    {
        BenchSettings settings = new(IsQuick: false, Messages, s_options.Directory(parsed)) { Repetitions = Repetitions };
        HashSet<string> wanted = s_options.Wanted(parsed, Names);
        bool holds = true;
        int code = s_options.Run(parsed, settings, run => Measure(run, wanted, out holds), Legend);
        return holds ? code : ExitCodes.Failure;
    }

    private static List<FigureResult> Measure(BenchRun run, HashSet<string> wanted, out bool holds)
    {
        holds = true;
        List<FigureResult> results = [];
        Console.Out.WriteLine($"{"figure",-20}{"ours",9}{"raw",9}{"ratio",8}{"table",8}  result");
        foreach (GateRow row in GateTable.Rows.Where(row => wanted.Contains(row.Name)))
        {
            BenchOptions.ShowProgress(row.Name);
            Samples samples = Take(run, row);
            for (int round = 1; round < RoundsMax && !Holds(row, samples); round++)
            {
                Samples more = Take(run, row);
                samples = samples with { Raw = [.. samples.Raw, .. more.Raw], Ours = [.. samples.Ours, .. more.Ours] };
            }

            bool rowHolds = Holds(row, samples);
            (double ours, double raw) = (samples.Ours.Min(), samples.Raw.Min());
            holds &= rowHolds;
            results.Add(FigureResult.Of(samples));
            string result = rowHolds ? "ok" : $"SLOWER than the table by more than {GateTable.Tolerance:P0}: {row.Reason}";
            Console.Out.WriteLine(string.Create(
                CultureInfo.InvariantCulture,
                $"{row.Name,-20}{ours,9:0.00}{raw,9:0.00}{ours / raw,8:0.00}{row.Ratio,8:0.00}  {result}"));
        }

        return results;
    }

    private static Samples Take(BenchRun run, GateRow row) =>
        run.Measure(row.Role, processCount: 1).Single();

    private static bool Holds(GateRow row, Samples samples) =>
        samples.Ours.Min() <= samples.Raw.Min() * row.Ratio * (1 + GateTable.Tolerance);
}

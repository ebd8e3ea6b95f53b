using System.CommandLine;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Bench;

/// <summary>Makes the subcommand of a suite: the options of the others, with bytes instead of messages.</summary>
internal static class SuiteCommand
{
    private const string Legend =
        "Value and raw (the peer that docs/BENCHMARKS.md names) are medians; min and max are the value's; ratio = value / raw.";

    public static Command Create(BenchSuite suite)
    {
        BenchOptions options = new("figure", "Less data and fewer repetitions; done within 50 s with two CPUs.");
        Option<long?> bytes = ToolOptions.Number(
            "--bytes",
            "Bytes that each repetition moves; by default 1 GiB, with --quick 128 MiB.",
            BenchSettings.BytesMin,
            BenchSettings.BytesMax);
        Command command = new(suite.Name, suite.Description);
        options.AddTo(command, _ => suite.Names);
        command.Add(bytes);
        command.SetAction(parsed =>
        {
            bool isQuick = options.IsQuick(parsed);
            BenchSettings settings = new(
                isQuick,
                isQuick ? BenchSettings.MessagesDefaultQuick : BenchSettings.MessagesDefault,
                options.Directory(parsed),
                parsed.GetValue(bytes) ?? (isQuick ? BenchSettings.BytesDefaultQuick : BenchSettings.BytesDefault));
            return options.Run(parsed, settings, run => Measure(suite, run, options, parsed), Legend);
        });
        return command;
    }

    private static List<FigureResult> Measure(BenchSuite suite, BenchRun run, BenchOptions options, ParseResult parsed)
    {
        List<FigureResult> results = BenchOptions.MeasureGroups(run, suite.Groups, options.Wanted(parsed, suite.Names));
        if (options.IsAll(parsed))
            suite.WriteTables?.Invoke(run);
        return results;
    }
}

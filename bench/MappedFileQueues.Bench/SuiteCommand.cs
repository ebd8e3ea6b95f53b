using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Bench;

/// <summary>Makes the subcommand of a suite: the options of the others, with bytes where it counts those.</summary>
internal static class SuiteCommand
{
    private const string Legend =
        "Value and raw (the peer that docs/BENCHMARKS.md names) are medians; min and max are the value's; ratio = value / raw.";

    public static Command Create(BenchSuite suite)
    {
        BenchOptions options = new("figure", "Less data and fewer repetitions; done within 60 s with two CPUs.");
        Option<long?> size = suite.Messages is { } messages
            ? ToolOptions.Number(
                "--messages",
                $"Messages in each repetition; by default {Text(messages.Full)}, with --quick {Text(messages.Quick)}.",
                BenchSettings.MessagesMin,
                BenchSettings.MessagesMax)
            : ToolOptions.Number(
                "--bytes",
                "Bytes that each repetition moves; by default 1 GiB, with --quick 128 MiB.",
                BenchSettings.BytesMin,
                BenchSettings.BytesMax);
        Command command = new(suite.Name, suite.Description);
        options.AddTo(command, _ => suite.Names);
        command.Add(size);
        command.SetAction(parsed =>
        {
            BenchSettings settings = Settings(suite, options.IsQuick(parsed), options.Directory(parsed), parsed.GetValue(size));
            return options.Run(parsed, settings, run => Measure(suite, run, options, parsed), Legend);
        });
        return command;
    }

    private static BenchSettings Settings(BenchSuite suite, bool isQuick, string directory, long? size) =>
        suite.Messages is { } messages
            ? new BenchSettings(isQuick, size ?? (isQuick ? messages.Quick : messages.Full), directory)
            : new BenchSettings(
                isQuick,
                isQuick ? BenchSettings.MessagesDefaultQuick : BenchSettings.MessagesDefault,
                directory,
                size ?? (isQuick ? BenchSettings.BytesDefaultQuick : BenchSettings.BytesDefault));

    private static string Text(long number) => number.ToString("N0", CultureInfo.InvariantCulture);

    private static List<FigureResult> Measure(BenchSuite suite, BenchRun run, BenchOptions options, ParseResult parsed)
    {
        List<FigureResult> results = BenchOptions.MeasureGroups(run, suite.Groups, options.Wanted(parsed, suite.Names));
        if (options.IsAll(parsed))
            suite.WriteTables?.Invoke(run);
        return results;
    }
}

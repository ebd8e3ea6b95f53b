using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Bench.Headline;

/// <summary>The group `headline`: the table that version 1.x showed.</summary>
internal static class HeadlineCommand
{
    private const string Legend = "Medians; beside them the smallest and the largest.";

    private static readonly BenchOptions s_options = new("job", "1,000,000 messages and three repetitions.");

    private static readonly Option<long?> s_messages = ToolOptions.Number(
        "--messages",
        "Messages in each repetition; by default 10,000,000, with --quick 1,000,000.",
        BenchSettings.MessagesMin,
        BenchSettings.MessagesMax);

    public static Command Create()
    {
        Command command = new(
            "headline", "Measures the table of 1.x: messages written and read as structs and by each serializer.");
        s_options.AddTo(command, _ => HeadlineTable.Jobs);
        command.Add(s_messages);
        command.SetAction(Run);
        return command;
    }

    private static int Run(ParseResult parsed)
    {
        bool isQuick = s_options.IsQuick(parsed);
        long messages = parsed.GetValue(s_messages)
            ?? (isQuick ? BenchSettings.MessagesDefaultQuick : BenchSettings.MessagesDefault);
        BenchSettings settings = new(isQuick, messages, s_options.Directory(parsed)) { HasRaw = false };
        return s_options.Run(parsed, settings, run => Measure(run, s_options.Wanted(parsed, HeadlineTable.Jobs)), Legend);
    }

    private static List<FigureResult> Measure(BenchRun run, HashSet<string> wanted)
    {
        Dictionary<string, FigureResult> results = [];
        foreach (string role in HeadlineTable.Roles)
        {
            BenchOptions.ShowProgress(role);
            foreach (Samples samples in run.Measure(role, processCount: 1))
                results.Add(samples.Name, FigureResult.Of(samples));
        }

        Console.Out.WriteLine("| job | ns a message | min - max | bytes allocated a message |");
        Console.Out.WriteLine("|---|---|---|---|");
        List<FigureResult> shown = [];
        foreach (string job in HeadlineTable.Jobs.Where(wanted.Contains))
        {
            FigureResult time = results[job];
            FigureResult bytes = results[job + HeadlineTable.BytesSuffix];
            shown.AddRange([time, bytes]);
            Console.Out.WriteLine(string.Create(
                CultureInfo.InvariantCulture,
                $"| `{job}` | {time.Value:0.#} | {time.Min:0.#} - {time.Max:0.#} | {bytes.Value:0.#} |"));
        }

        return shown;
    }
}

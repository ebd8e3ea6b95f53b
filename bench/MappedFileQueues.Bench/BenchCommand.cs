using System.CommandLine;
using System.CommandLine.Parsing;
using MappedFileQueues.Bench.Bridge;
using MappedFileQueues.Bench.DotnetIo;
using MappedFileQueues.Bench.FigurePages;
using MappedFileQueues.Bench.Files;
using MappedFileQueues.Bench.Gate;
using MappedFileQueues.Bench.Groups;
using MappedFileQueues.Bench.Headline;
using MappedFileQueues.Bench.Interop;
using MappedFileQueues.Bench.Limits;
using MappedFileQueues.Bench.Packs;
using MappedFileQueues.Bench.Peers;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Bench;

/// <summary>The queue's figures, each beside a raw loop over the same kind of file in the same run.</summary>
internal static class BenchCommand
{
    private const string Legend = "Value and raw are medians; min and max are the value's; ratio = value / raw.";

    private static readonly BenchOptions s_options = new(
        "figure", "Fewer messages and repetitions; done within 40 s with two CPUs.");

    private static readonly Option<long?> s_messages = ToolOptions.Number(
        "--messages",
        "Messages in each repetition; by default 10,000,000, with --quick 1,000,000.",
        BenchSettings.MessagesMin,
        BenchSettings.MessagesMax);

    private static readonly Option<bool> s_limits = ToolOptions.Flag(
        "--limits", "Compares the raw loops with the C program bench/limits.c instead; needs a C compiler and a checkout.");

    private static readonly Option<bool> s_cold = ToolOptions.Flag(
        "--cold",
        "Appends without prepared room and with default segments, and reads what is on disk only; for the figures of both.");

    public static RootCommand Create()
    {
        RootCommand root = new("Measures the queue, files and packs beside raw loops over the same kind of files.");
        root.Add(OutputOption.Option);
        AddQueues(root);
        Command queues = new("queues", "The queue's figures, as without a subcommand.");
        AddQueues(queues);
        root.Add(queues);
        root.Add(SuiteCommand.Create(FileFigures.Suite));
        root.Add(HeadlineCommand.Create());
        root.Add(GateCommand.Create());
        root.Add(DotnetIoCommand.Create());
        root.Add(SuiteCommand.Create(PackFigures.Suite));
        root.Add(SuiteCommand.Create(BridgeFigures.Suite));
        root.Add(SuiteCommand.Create(PeerFigures.Suite));
        root.Add(SuiteCommand.Create(GroupFigures.Suite));
        root.Add(SuiteCommand.Create(InteropFigures.Suite));
        root.Add(FiguresCommand.Create());
        return root;
    }

    private static void AddQueues(Command command)
    {
        s_options.AddTo(command, Known);
        command.Add(s_messages);
        command.Add(s_limits);
        command.Add(s_cold);
        command.SetAction(Run);
    }

    private static int Run(ParseResult parsed)
    {
        bool isQuick = s_options.IsQuick(parsed);
        bool comparesLimits = parsed.GetValue(s_limits);
        long messages = parsed.GetValue(s_messages)
            ?? (isQuick ? BenchSettings.MessagesDefaultQuick : BenchSettings.MessagesDefault);
        BenchSettings settings = new(isQuick, messages, s_options.Directory(parsed)) { IsCold = parsed.GetValue(s_cold) };
        HashSet<string> wanted = s_options.Wanted(
            parsed,
            comparesLimits ? LimitsComparison.Names : settings.IsCold ? BenchFigures.ColdNames : BenchFigures.UsualNames);
        return s_options.Run(
            parsed,
            settings,
            run => comparesLimits
                ? CompareLimits(run, wanted)
                : BenchOptions.MeasureGroups(run, BenchFigures.Groups, wanted),
            Legend);
    }

    private static List<FigureResult> CompareLimits(BenchRun run, HashSet<string> wanted)
    {
        List<FigureResult> results = [];
        foreach (FigureResult result in LimitsComparison.Run(run, wanted))
        {
            BenchOptions.ShowProgress(result.Name);
            if (wanted.Contains(result.Name))
                results.Add(result);
        }

        BenchTable.Write(results, valueTitle: "C#", rawTitle: "C");
        string[] apart = [.. results.Where(result => !LimitsComparison.Agree(result)).Select(result => result.Name)];
        Console.Out.WriteLine(apart.Length == 0
            ? "\nAll agree within 15 %."
            : $"\nMore than 15 % apart: {string.Join(", ", apart)}.");
        return results;
    }

    private static IEnumerable<string> Known(CommandResult result) =>
        result.GetValue(s_limits) ? LimitsComparison.Names
        : result.GetValue(s_cold) ? BenchFigures.ColdNames
        : BenchFigures.Names;
}

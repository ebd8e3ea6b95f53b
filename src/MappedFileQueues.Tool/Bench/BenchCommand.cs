using System.CommandLine;
using System.CommandLine.Parsing;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Tool.Bench.Files;
using MappedFileQueues.Tool.Bench.Limits;
using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Packs;
using MappedFileQueues.Tool.Bench.Processes;
using MappedFileQueues.Tool.Bench.Reporting;

namespace MappedFileQueues.Tool.Bench;

/// <summary>`mfq bench`: the queue's figures, each beside a raw loop over the same kind of file in the same run.</summary>
internal static class BenchCommand
{
    private const string Legend = "Value and raw are medians; min and max are the value's; ratio = value / raw.";

    private static readonly Option<bool> s_quick = new("--quick")
    {
        Description = "Fewer messages and repetitions; done within 40 s with two CPUs.",
    };

    private static readonly Option<string?> s_only = new("--only")
    {
        Description = "Only these figures, separated by commas.",
        HelpName = "NAMES",
    };

    private static readonly Option<long?> s_messages = new("--messages")
    {
        Description = "Messages in each repetition; by default 10,000,000, with --quick 1,000,000.",
        HelpName = "N",
    };

    private static readonly Option<FileInfo?> s_json = new("--json")
    {
        Description = "Also writes the figures to this file, as a JSON array.",
        HelpName = "FILE",
    };

    private static readonly Option<DirectoryInfo?> s_directory = new("--dir")
    {
        Description = "Where to put the files that are measured; by default the folder for temporary files.",
        HelpName = "DIR",
    };

    private static readonly Option<bool> s_limits = new("--limits")
    {
        Description = "Compares the raw loops with the C program bench/limits.c instead; needs a C compiler and a checkout.",
    };

    public static Command Create()
    {
        Command command = new("bench", "Measures the queue beside raw loops over the same kind of files.");
        foreach (Option option in new Option[] { s_quick, s_only, s_messages, s_json, s_directory, s_limits })
            command.Add(option);
        s_messages.Validators.Add(result =>
        {
            // What is no number at all has its own error already.
            bool isNumber = long.TryParse(result.Tokens.SingleOrDefault()?.Value, CultureInfo.InvariantCulture, out long count);
            if (isNumber && count is < BenchSettings.MessagesMin or > BenchSettings.MessagesMax)
                result.AddError($"--messages is between {BenchSettings.MessagesMin} and {BenchSettings.MessagesMax}.");
        });
        command.Validators.Add(CheckNames);
        command.Add(SuiteCommand.Create(FileFigures.Suite));
        command.Add(DotnetIo.DotnetIoCommand.Create());
        command.Add(SuiteCommand.Create(PackFigures.Suite));
        command.Add(ChildCommand.Create());
        command.SetAction(Run);
        return command;
    }

    private static int Run(ParseResult parsed)
    {
        bool isQuick = parsed.GetValue(s_quick);
        bool comparesLimits = parsed.GetValue(s_limits);
        long messages = parsed.GetValue(s_messages)
            ?? (isQuick ? BenchSettings.MessagesDefaultQuick : BenchSettings.MessagesDefault);
        BenchSettings settings = new(isQuick, messages, parsed.GetValue(s_directory)?.FullName ?? Path.GetTempPath());
        HashSet<string> wanted = Wanted(
            parsed.GetValue(s_only), comparesLimits ? LimitsComparison.Names : BenchFigures.UsualNames);

        long start = Stopwatch.GetTimestamp();
        BenchTable.WriteHead(settings);
        using BenchRun run = new(settings);
        List<FigureResult> results = comparesLimits ? CompareLimits(run, wanted) : MeasureFigures(run, wanted);
        string seconds = Stopwatch.GetElapsedTime(start).TotalSeconds.ToString("F1", CultureInfo.InvariantCulture);
        Console.Out.WriteLine($"\nDone in {seconds} s. {Legend}");
        if (parsed.GetValue(s_json) is { } file)
            BenchJson.Write(file.FullName, results);
        return ExitCodes.Success;
    }

    private static List<FigureResult> MeasureFigures(BenchRun run, HashSet<string> wanted)
    {
        List<FigureResult> results = [];
        foreach (BenchFigureGroup group in BenchFigures.Groups.Where(group => group.Names.Any(wanted.Contains)))
        {
            ShowProgress(group.Names[0]);
            results.AddRange(group.Measure(run).Where(samples => wanted.Contains(samples.Name)).Select(FigureResult.Of));
        }

        BenchTable.Write(results);
        return results;
    }

    private static List<FigureResult> CompareLimits(BenchRun run, HashSet<string> wanted)
    {
        List<FigureResult> results = [];
        foreach (FigureResult result in LimitsComparison.Run(run, wanted))
        {
            ShowProgress(result.Name);
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

    /// <summary>What --only names, or everything.</summary>
    private static HashSet<string> Wanted(string? only, IEnumerable<string> known) =>
        only is null ? [.. known] : [.. only.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)];

    private static void CheckNames(CommandResult result)
    {
        string[] known = [.. Known(result.GetValue(s_limits))];
        HashSet<string> wanted = Wanted(result.GetValue(s_only), known);
        string[] unknown = [.. wanted.Except(known)];
        if (unknown.Length > 0 || wanted.Count == 0)
            result.AddError($"No such figure: {string.Join(", ", unknown)}. Known: {string.Join(", ", known)}.");
    }

    private static IEnumerable<string> Known(bool comparesLimits) => comparesLimits ? LimitsComparison.Names : BenchFigures.Names;

    /// <summary>For people only: a line that the next one replaces.</summary>
    internal static void ShowProgress(string name)
    {
        if (!Console.IsErrorRedirected && !Console.IsOutputRedirected)
            Console.Error.Write($"\r{name,-40}\r");
    }
}

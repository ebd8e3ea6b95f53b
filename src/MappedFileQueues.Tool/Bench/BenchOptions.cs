using System.CommandLine;
using System.CommandLine.Parsing;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Tool.Bench.Reporting;

namespace MappedFileQueues.Tool.Bench;

/// <summary>What the kinds of `mfq bench` share: options, head, measuring one figure after the other, end, JSON.</summary>
/// <param name="kind">What --only names: "figure" or "table".</param>
/// <param name="quickDescription">What --quick means here.</param>
internal sealed class BenchOptions(string kind, string quickDescription)
{
    private readonly Option<bool> _quick = new("--quick") { Description = quickDescription };

    private readonly Option<string?> _only = new("--only")
    {
        Description = $"Only these {kind}s, separated by commas.",
        HelpName = "NAMES",
    };

    private readonly Option<FileInfo?> _json = new("--json")
    {
        Description = $"Also writes the {kind}s to this file, as a JSON array.",
        HelpName = "FILE",
    };

    private readonly Option<DirectoryInfo?> _directory = new("--dir")
    {
        Description = "Where to put the files that are measured; by default the folder for temporary files.",
        HelpName = "DIR",
    };

    /// <summary>An option that takes a number within limits.</summary>
    public static Option<long?> CreateCount(string name, string description, long min, long max)
    {
        Option<long?> option = new(name) { Description = description, HelpName = "N" };
        option.Validators.Add(result =>
        {
            // What is no number at all has its own error already.
            bool isNumber = long.TryParse(result.Tokens.SingleOrDefault()?.Value, CultureInfo.InvariantCulture, out long count);
            if (isNumber && (count < min || count > max))
                result.AddError($"{name} is between {min} and {max}.");
        });
        return option;
    }

    /// <summary>Gives a command these options; what --only names has to be known.</summary>
    public void AddTo(Command command, Func<CommandResult, IEnumerable<string>> findKnown)
    {
        command.Add(_quick);
        command.Add(_only);
        command.Add(_json);
        command.Add(_directory);
        command.Validators.Add(result =>
        {
            string[] known = [.. findKnown(result)];
            HashSet<string> wanted = Split(result.GetValue(_only), known);
            string[] unknown = [.. wanted.Except(known)];
            if (unknown.Length > 0 || wanted.Count == 0)
                result.AddError($"No such {kind}: {string.Join(", ", unknown)}. Known: {string.Join(", ", known)}.");
        });
    }

    public bool IsQuick(ParseResult parsed) => parsed.GetValue(_quick);

    /// <summary>Nothing was left out by --only.</summary>
    public bool IsAll(ParseResult parsed) => parsed.GetValue(_only) is null;

    public string Directory(ParseResult parsed) => parsed.GetValue(_directory)?.FullName ?? Path.GetTempPath();

    /// <summary>What --only names, or else the usual.</summary>
    public HashSet<string> Wanted(ParseResult parsed, IEnumerable<string> usual) => Split(parsed.GetValue(_only), usual);

    /// <summary>Measures between the head and the end of the output, and writes the JSON.</summary>
    public int Run(
        ParseResult parsed, BenchSettings settings, Func<BenchRun, IReadOnlyList<FigureResult>> measure, string legend)
    {
        long start = Stopwatch.GetTimestamp();
        BenchTable.WriteHead(settings);
        using BenchRun run = new(settings);
        IReadOnlyList<FigureResult> results = measure(run);
        string seconds = Stopwatch.GetElapsedTime(start).TotalSeconds.ToString("F1", CultureInfo.InvariantCulture);
        Console.Out.WriteLine($"\nDone in {seconds} s. {legend}");
        if (parsed.GetValue(_json) is { } file)
            BenchJson.Write(file.FullName, results);
        return ExitCodes.Success;
    }

    /// <summary>Measures the groups that hold a wanted figure, and prints those.</summary>
    public static List<FigureResult> MeasureGroups(BenchRun run, IEnumerable<BenchFigureGroup> groups, HashSet<string> wanted)
    {
        List<FigureResult> results = [];
        foreach (BenchFigureGroup group in groups.Where(group => group.Names.Any(wanted.Contains)))
        {
            ShowProgress(group.Names[0]);
            results.AddRange(group.Measure(run).Where(samples => wanted.Contains(samples.Name)).Select(FigureResult.Of));
        }

        BenchTable.Write(results);
        return results;
    }

    /// <summary>For people only: a line that the next one replaces.</summary>
    public static void ShowProgress(string name)
    {
        if (!Console.IsErrorRedirected && !Console.IsOutputRedirected)
            Console.Error.Write($"\r{name,-40}\r");
    }

    private static HashSet<string> Split(string? only, IEnumerable<string> usual) => only is null
        ? [.. usual]
        : [.. only.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)];
}

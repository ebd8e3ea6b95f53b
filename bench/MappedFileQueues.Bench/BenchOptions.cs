using System.CommandLine;
using System.CommandLine.Parsing;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Bench;

/// <summary>What the groups share: options, head, measuring one figure after the other, end, JSON.</summary>
/// <param name="kind">What --only names: "figure" or "table".</param>
/// <param name="quickDescription">What --quick means here.</param>
internal sealed class BenchOptions(string kind, string quickDescription)
{
    private readonly Option<bool> _quick = ToolOptions.Flag("--quick", quickDescription);

    private readonly Option<string?> _only = new("--only")
    {
        Description = $"Only these {kind}s, separated by commas.",
        HelpName = "NAMES",
    };

    private readonly Option<string?> _json = ToolOptions.Path(
        "--json", $"Also writes the {kind}s to this file, as JSON with date, commit and machine.", "FILE");

    private readonly Option<string?> _directory = ToolOptions.Path(
        "--dir", "Where to put the files that are measured; by default the folder for temporary files.", "DIR");

    private readonly Option<long?> _repetitions = ToolOptions.Number(
        "--repetitions", "How often each is measured; by default 5 times, with --quick 3.", 1, BenchSettings.RepetitionsMax);

    private readonly Option<bool> _noWarmUp = ToolOptions.Flag(
        "--no-warm-up", "Measures code that is not compiled to the end: shows in a short time whether everything works.");

    /// <summary>Gives a command these options; what --only names has to be known.</summary>
    public void AddTo(Command command, Func<CommandResult, IEnumerable<string>> findKnown)
    {
        command.Add(_quick);
        command.Add(_only);
        command.Add(_json);
        command.Add(_directory);
        command.Add(_repetitions);
        command.Add(_noWarmUp);
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

    public string Directory(ParseResult parsed) => parsed.GetValue(_directory) ?? Path.GetTempPath();

    /// <summary>What --only names, or else the usual.</summary>
    public HashSet<string> Wanted(ParseResult parsed, IEnumerable<string> usual) => Split(parsed.GetValue(_only), usual);

    /// <summary>Measures between the head and the end of the output, and writes the JSON that was asked for.</summary>
    public int Run(
        ParseResult parsed, BenchSettings settings, Func<BenchRun, IReadOnlyList<FigureResult>> measure, string legend)
    {
        // The tables are for people; programs get an array of the figures.
        TextWriter output = Console.Out;
        if (OutputOption.IsJson(parsed))
            Console.SetOut(TextWriter.Null);
        long start = Stopwatch.GetTimestamp();
        DateTime date = DateTime.UtcNow;
        if (parsed.GetValue(_repetitions) is { } repetitions)
            settings = settings with { Repetitions = (int)repetitions };
        settings = settings with { WarmsUp = !parsed.GetValue(_noWarmUp) };
        BenchTable.WriteHead(settings);
        using BenchRun run = new(settings);
        IReadOnlyList<FigureResult> results = measure(run);
        string seconds = Stopwatch.GetElapsedTime(start).TotalSeconds.ToString("F1", CultureInfo.InvariantCulture);
        Console.Out.WriteLine($"\nDone in {seconds} s. {legend}");
        if (parsed.GetValue(_json) is { } file)
            BenchReport.Of(settings, date, parsed.Tokens.Select(token => token.Value), results).Write(file);
        if (OutputOption.IsJson(parsed))
            output.WriteLine(BenchJson.Of(results));
        return ExitCodes.Success;
    }

    /// <summary>
    /// Measures the groups that hold a wanted figure, and prints those: what waits for the disk is in a table of its own.
    /// </summary>
    public static List<FigureResult> MeasureGroups(BenchRun run, IEnumerable<BenchFigureGroup> groups, HashSet<string> wanted)
    {
        List<FigureResult> unflushed = [];
        List<FigureResult> flushed = [];
        List<(string Note, string Name)> notes = [];
        foreach (BenchFigureGroup group in groups.Where(group => group.Names.Any(wanted.Contains)))
        {
            ShowProgress(group.Names[0]);
            (group.IsFlushed ? flushed : unflushed)
                .AddRange(group.Measure(run).Where(samples => wanted.Contains(samples.Name)).Select(FigureResult.Of));
            if (group.Note is { } note)
                notes.AddRange(group.Names.Where(wanted.Contains).Select(name => (note, name)));
        }

        if (unflushed.Count > 0)
            BenchTable.Write(unflushed);
        if (flushed.Count > 0)
        {
            Console.Out.WriteLine("\nWith flushes to the disk inside the time, on both sides:");
            BenchTable.Write(flushed);
        }

        foreach (IGrouping<string, string> note in notes.GroupBy(each => each.Note, each => each.Name))
            Console.Out.WriteLine($"{string.Join(", ", note)}: {note.Key}");
        return [.. unflushed, .. flushed];
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

using System.CommandLine;
using System.CommandLine.Parsing;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Tool.Bench.Reporting;

namespace MappedFileQueues.Tool.Bench;

/// <summary>Makes the subcommand of a suite: the options of `mfq bench`, with bytes instead of messages.</summary>
internal sealed class SuiteCommand
{
    private const string Legend =
        "Value and raw (the peer that docs/BENCHMARKS.md names) are medians; min and max are the value's; ratio = value / raw.";

    private readonly BenchSuite _suite;

    private readonly Option<bool> _quick = new("--quick")
    {
        Description = "Less data and fewer repetitions; done within 50 s with two CPUs.",
    };

    private readonly Option<string?> _only = new("--only")
    {
        Description = "Only these figures, separated by commas.",
        HelpName = "NAMES",
    };

    private readonly Option<long?> _bytes = new("--bytes")
    {
        Description = "Bytes that each repetition moves; by default 1 GiB, with --quick 128 MiB.",
        HelpName = "N",
    };

    private readonly Option<FileInfo?> _json = new("--json")
    {
        Description = "Also writes the figures to this file, as a JSON array.",
        HelpName = "FILE",
    };

    private readonly Option<DirectoryInfo?> _directory = new("--dir")
    {
        Description = "Where to put the files that are measured; by default the folder for temporary files.",
        HelpName = "DIR",
    };

    private SuiteCommand(BenchSuite suite) => _suite = suite;

    public static Command Create(BenchSuite suite)
    {
        SuiteCommand self = new(suite);
        Command command = new(suite.Name, suite.Description);
        foreach (Option option in new Option[] { self._quick, self._only, self._bytes, self._json, self._directory })
            command.Add(option);
        self._bytes.Validators.Add(CheckBytes);
        command.Validators.Add(self.CheckNames);
        command.SetAction(self.Run);
        return command;
    }

    private static void CheckBytes(OptionResult result)
    {
        // What is no number at all has its own error already.
        bool isNumber = long.TryParse(result.Tokens.SingleOrDefault()?.Value, CultureInfo.InvariantCulture, out long count);
        if (isNumber && count is < BenchSettings.BytesMin or > BenchSettings.BytesMax)
            result.AddError($"--bytes is between {BenchSettings.BytesMin} and {BenchSettings.BytesMax}.");
    }

    private int Run(ParseResult parsed)
    {
        bool isQuick = parsed.GetValue(_quick);
        long bytes = parsed.GetValue(_bytes) ?? (isQuick ? BenchSettings.BytesDefaultQuick : BenchSettings.BytesDefault);
        BenchSettings settings = new(
            isQuick,
            isQuick ? BenchSettings.MessagesDefaultQuick : BenchSettings.MessagesDefault,
            parsed.GetValue(_directory)?.FullName ?? Path.GetTempPath(),
            bytes);
        HashSet<string> wanted = Wanted(parsed.GetValue(_only));

        long start = Stopwatch.GetTimestamp();
        BenchTable.WriteHead(settings);
        using BenchRun run = new(settings);
        List<FigureResult> results = [];
        foreach (BenchFigureGroup group in _suite.Groups.Where(group => group.Names.Any(wanted.Contains)))
        {
            BenchCommand.ShowProgress(group.Names[0]);
            results.AddRange(group.Measure(run).Where(samples => wanted.Contains(samples.Name)).Select(FigureResult.Of));
        }

        BenchTable.Write(results);
        if (parsed.GetValue(_only) is null)
            _suite.WriteTables?.Invoke(run);
        string seconds = Stopwatch.GetElapsedTime(start).TotalSeconds.ToString("F1", CultureInfo.InvariantCulture);
        Console.Out.WriteLine($"\nDone in {seconds} s. {Legend}");
        if (parsed.GetValue(_json) is { } file)
            BenchJson.Write(file.FullName, results);
        return ExitCodes.Success;
    }

    /// <summary>What --only names, or everything.</summary>
    private HashSet<string> Wanted(string? only) => only is null
        ? [.. _suite.Names]
        : [.. only.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)];

    private void CheckNames(CommandResult result)
    {
        HashSet<string> wanted = Wanted(result.GetValue(_only));
        string[] unknown = [.. wanted.Except(_suite.Names)];
        if (unknown.Length > 0 || wanted.Count == 0)
            result.AddError($"No such figure: {string.Join(", ", unknown)}. Known: {string.Join(", ", _suite.Names)}.");
    }
}

using System.CommandLine;
using System.CommandLine.Parsing;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Reporting;

namespace MappedFileQueues.Tool.Bench.DotnetIo;

/// <summary>
/// `mfq bench dotnet-io`: which of .NET's ways to open, read, write and copy a file is the fast one here, beside this library's.
/// </summary>
internal static class DotnetIoCommand
{
    private const long LengthDefault = 128L << 20;
    private const long LengthQuick = 16L << 20;

    private static readonly Option<bool> s_quick = new("--quick")
    {
        Description = "A file of 16 MiB instead of 128, and fewer repetitions.",
    };

    private static readonly Option<string?> s_only = new("--only")
    {
        Description = "Only these tables, separated by commas.",
        HelpName = "NAMES",
    };

    private static readonly Option<FileInfo?> s_json = new("--json")
    {
        Description = "Also writes the rows to this file, as a JSON array; raw is the fastest of the table.",
        HelpName = "FILE",
    };

    private static readonly Option<DirectoryInfo?> s_directory = new("--dir")
    {
        Description = "Where to put the files; by default the folder for temporary files.",
        HelpName = "DIR",
    };

    public static Command Create()
    {
        Command command = new("dotnet-io", "Measures .NET's own ways to open, read, write and copy files: which one to choose.");
        foreach (Option option in new Option[] { s_quick, s_only, s_json, s_directory })
            command.Add(option);
        command.Validators.Add(CheckNames);
        command.SetAction(Run);
        return command;
    }

    private static int Run(ParseResult parsed)
    {
        bool isQuick = parsed.GetValue(s_quick);
        BenchSettings settings = new(
            isQuick,
            BenchSettings.MessagesDefaultQuick,
            parsed.GetValue(s_directory)?.FullName ?? Path.GetTempPath(),
            isQuick ? LengthQuick : LengthDefault);
        HashSet<string> wanted = Wanted(parsed.GetValue(s_only));
        long start = Stopwatch.GetTimestamp();
        BenchTable.WriteHead(settings);
        using BenchRun run = new(settings);
        List<FigureResult> figures = [];
        foreach (IoTable table in IoMeasurement.Tables.Where(table => wanted.Contains(table.Name)))
        {
            BenchCommand.ShowProgress(table.Name);
            IReadOnlyList<Samples> samples = run.Measure(table.Role, processCount: 1);
            IoReport.Write(table, samples);
            figures.AddRange(IoReport.FiguresOf(table, samples));
        }

        string seconds = Stopwatch.GetElapsedTime(start).TotalSeconds.ToString("F1", CultureInfo.InvariantCulture);
        Console.Out.WriteLine(
            $"\nDone in {seconds} s. Medians; * is the fastest way, or within 5 % of it. The file is in the system's cache: "
            + "what a disk costs is not in these numbers.");
        if (parsed.GetValue(s_json) is { } file)
            BenchJson.Write(file.FullName, figures);
        return ExitCodes.Success;
    }

    private static HashSet<string> Wanted(string? only) => only is null
        ? [.. IoMeasurement.Tables.Select(table => table.Name)]
        : [.. only.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)];

    private static void CheckNames(CommandResult result)
    {
        string[] known = [.. IoMeasurement.Tables.Select(table => table.Name)];
        HashSet<string> wanted = Wanted(result.GetValue(s_only));
        string[] unknown = [.. wanted.Except(known)];
        if (unknown.Length > 0 || wanted.Count == 0)
            result.AddError($"No such table: {string.Join(", ", unknown)}. Known: {string.Join(", ", known)}.");
    }
}

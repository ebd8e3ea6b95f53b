using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Bench;

/// <summary>
/// `mfq bench`: measures in 20 s what this disk and this machine give a user. Default options, new files, nothing prepared by
/// hand. Each figure stands beside a raw loop that does the same without a queue; the two run in turn.
/// </summary>
internal static class SmallBench
{
    private static readonly Option<string?> s_json =
        ToolOptions.Path("--json", "Also write the figures to this file, as a JSON array.", "FILE");

    private static readonly Option<string?> s_directory = ToolOptions.Path(
        "--dir", "The directory for the measured files; by default the directory for temporary files.", "DIR");

    public static Command Create()
    {
        Command command = new(
            "bench", "Measure what this machine and this disk give, append, read, round trip, durable: `mfq bench --dir /data`.")
        {
            s_json,
            s_directory,
        };
        command.SetAction(Run);
        return command;
    }

    private static int Run(ParseResult parsed)
    {
        string parent = Path.GetFullPath(parsed.GetValue(s_directory) ?? Path.GetTempPath());
        string folder = Path.Combine(parent, $"mfq-bench-{Guid.NewGuid():N}");
        using Interruption interruption = new();
        List<FigureResult> results = [];
        Directory.CreateDirectory(folder);
        try
        {
            foreach (Func<Samples> measure in new SmallFigures(folder, interruption.Token).All)
                results.Add(FigureResult.Of(measure()));
        }
        catch (OperationCanceledException)
        {
            return interruption.ExitCode;
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }

        if (parsed.GetValue(s_json) is { } file)
            BenchJson.Write(file, results);
        if (OutputOption.IsJson(parsed))
            OutputOption.WriteJson(new BenchResult(results), BenchJson.Default.BenchResult);
        else
            Print(results, parent);
        return ExitCodes.Success;
    }

    private static void Print(List<FigureResult> results, string folder)
    {
        Report report = new(
            "Messages of 64 bytes, default options, new files", "figure", "value", "raw", "ratio", "spread", "unit");
        foreach (FigureResult result in results)
        {
            report.Add(result.Name, Number(result.Value), Number(result.Raw),
                result.Ratio?.ToString("0.00", CultureInfo.InvariantCulture) ?? "-",
                $"{Number(result.Min)} - {Number(result.Max)}", result.Unit);
        }

        report.Write();
        OutputLine.Write($"Medians of {SmallFigures.Repetitions} runs, raw and queue in turn, in {folder}. "
            + "Raw is the same work without a queue: copies to a mapped file, a sum over it, two threads on a word, fdatasync.");
    }

    private static string Number(double value) => value.ToString(value >= 1000 ? "N0" : "0.00", CultureInfo.InvariantCulture);
}

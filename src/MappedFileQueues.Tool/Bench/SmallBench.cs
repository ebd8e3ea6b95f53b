using System.Text.Json;

namespace MappedFileQueues.Tool.Bench;

/// <summary>
/// `mfq bench`: measures in 20 s what this disk and this machine give a user. Default options, new files, nothing prepared by
/// hand. Each figure is beside a raw loop that does the same without a queue; the two run in turn.
/// </summary>
internal static class SmallBench
{
    public static Command Create()
    {
        Option<string?> json = ToolOptions.Path("--json", "Also write the figures to this file, as a JSON array.", "FILE");
        Option<string?> directory = ToolOptions.Path(
            "--dir", "The directory for the measured files; by default the directory for temporary files.", "DIR");
        return new Command(
            "bench", "Measure what this machine and this disk give, append, read, round trip, durable: `mfq bench --dir /data`.")
        {
            json, directory,
        }.Does(parsed => Interruption.Run(stopped =>
        {
            string parent = SystemPath.Full(parsed.GetValue(directory) ?? Path.GetTempPath());
            string folder = Path.Combine(parent, $"mfq-bench-{Guid.NewGuid():N}");
            FigureResult[] results;
            Directory.CreateDirectory(folder);
            try
            {
                results = [.. new SmallFigures(folder, stopped).Measure()];
            }
            finally
            {
                Directory.Delete(folder, recursive: true);
            }

            if (parsed.GetValue(json) is { } file)
                File.WriteAllText(file, JsonSerializer.Serialize(results, ToolJson.Default.FigureResultArray));
            return Result.Write(
                parsed, new BenchResult(results), ToolJson.Default.BenchResult, result => Print(result.Figures, parent));
        }));
    }

    private static void Print(IReadOnlyList<FigureResult> results, string folder)
    {
        Report report = new(
            "Messages of 64 bytes, default options, new files", "figure", "value", "raw", "ratio", "spread", "unit");
        foreach (FigureResult result in results)
        {
            report.Add(
                result.Name, Number(result.Value), Number(result.Raw), result.Ratio is { } ratio ? $"{ratio:0.00}" : "-",
                $"{Number(result.Min)} - {Number(result.Max)}", result.Unit);
        }

        report.Write();
        OutputLine.Write($"Medians of {SmallFigures.Repetitions} runs, raw and queue in turn, in {folder}. "
            + "Raw is the same work without a queue: copies to a mapped file, a sum over it, two threads on a word, fdatasync.");
    }

    private static string Number(double value) => value >= 1000 ? $"{value:N0}" : $"{value:0.00}";
}

/// <summary>One figure as measured: one value per repetition, of the raw loop and of the queue.</summary>
internal sealed record Samples(string Name, string Unit, double[] Raw, double[] Ours);

/// <summary>One figure as it is shown; the ratio is 1 if both medians are 0, and missing if only the raw one is.</summary>
internal sealed record FigureResult(string Name, double Value, string Unit, double Raw, double? Ratio, double Min, double Max)
{
    public static FigureResult Of(Samples samples)
    {
        (double value, double raw) = (Median(samples.Ours), Median(samples.Raw));
        double? ratio = raw != 0 ? Round(value / raw) : value == 0 ? 1 : null;
        return new FigureResult(
            samples.Name, Round(value), samples.Unit, Round(raw), ratio, Round(samples.Ours.Min()), Round(samples.Ours.Max()));
    }

    /// <summary>The middle value, or the mean of the two middle ones; 0 if there are no values.</summary>
    public static double Median(IReadOnlyCollection<double> values)
    {
        double[] sorted = [.. values.Order()];
        return sorted.Length == 0 ? 0 : (sorted[(sorted.Length - 1) / 2] + sorted[sorted.Length / 2]) / 2;
    }

    /// <summary>Six significant digits: the rest is noise.</summary>
    private static double Round(double value) => double.Parse($"{value:G6}");
}

/// <summary>The result of `mfq bench`.</summary>
internal sealed record BenchResult(IReadOnlyList<FigureResult> Figures);

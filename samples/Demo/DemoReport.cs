using System.Globalization;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Demo;

/// <summary>Prints the results of a demo run.</summary>
internal static class DemoReport
{
    /// <summary>Prints everything; the verdict comes last.</summary>
    public static void Print(DemoResult result, InputPlan plan, DemoFolder folder, bool isKept)
    {
        PrintData(result, plan, folder);
        DemoFigures figures = new(folder);
        PrintRate(result, figures);
        PrintLatency(result, figures);
        PrintDeaths(result);
        OutputLine.Write($"SHA-256 in   {result.SentDigest}");
        OutputLine.Write($"SHA-256 out  {result.ReceivedDigest}");
        if (isKept)
            OutputLine.Write($"Kept: store={folder.StorePath} output={folder.OutputPath}");
        if (!result.IsWhole)
            OutputLine.Write("The time was up before all of the input was sent; the digests cover what was sent.");
        OutputLine.Write(result.IsRight
            ? "OK: what came out is what went in, each line once and in order."
            : "DIFFERENT: what came out is not what went in.");
    }

    private static void PrintData(DemoResult result, InputPlan plan, DemoFolder folder)
    {
        string rounds = plan.Rounds == 1 ? "once" : string.Create(CultureInfo.InvariantCulture, $"{plan.Rounds} times round");
        string files = plan.Files.Count == 1 ? plan.Files[0].Path : $"{Report.Number(plan.Files.Count)} files";
        Report report = new("Data", "", "");
        report.Add("input", $"{files}, {rounds}");
        report.Add("messages in", Report.Number(result.Sent.Messages));
        report.Add("messages out", Report.Number(result.Received.Messages));
        report.Add("bytes in", Report.Bytes(result.Sent.Bytes));
        report.Add("bytes out", Report.Bytes(result.Received.Bytes));
        DemoStore.AddTo(report, folder);
        report.Write();
    }

    private static void PrintRate(DemoResult result, DemoFigures figures)
    {
        Report report = new("Rate", "", "messages/s", "MB/s", "seconds");
        report.Add(RateRow("whole run, with kills, restarts and the even pace", result.Sent, result.Duration));
        List<(DemoProgress Content, TimeSpan Duration)> bursts =
        [
            .. result.Bursts.Where(burst => !burst.IsDisturbed && figures.Duration(burst) is not null)
                .Select(burst => (burst.Content, figures.Duration(burst)!.Value)),
        ];
        if (bursts.Count > 0)
        {
            DemoProgress sum = new(bursts.Sum(burst => burst.Content.Messages), bursts.Sum(burst => burst.Content.Bytes));
            TimeSpan duration = new(bursts.Sum(burst => burst.Duration.Ticks));
            report.Add(RateRow("bursts without a kill", sum, duration));
            (DemoProgress content, duration) = bursts.MaxBy(burst => burst.Content.Bytes / burst.Duration.TotalSeconds);
            report.Add(RateRow("the fastest burst", content, duration));
        }

        report.Write();
    }

    private static void PrintLatency(DemoResult result, DemoFigures figures)
    {
        Report report = new(
            "Latency, from before the append to after the read", "", "p50", "p99", "p99.9", "max", "messages timed");
        ILookup<bool, DemoBurst> bursts = result.Bursts.ToLookup(burst => burst.IsDisturbed);
        report.Add(LatencyRow("even pace", figures.Latencies([result.Steady])));
        report.Add(LatencyRow("bursts, with their backlog", figures.Latencies(bursts[false])));
        report.Add(LatencyRow("bursts with a kill, with the restart", figures.Latencies(bursts[true])));
        report.Write();
    }

    private static string[] RateRow(string name, DemoProgress content, TimeSpan duration) =>
    [
        name,
        Report.Number((long)(content.Messages / duration.TotalSeconds)),
        string.Create(CultureInfo.InvariantCulture, $"{content.Bytes / duration.TotalSeconds / 1e6:N1}"),
        string.Create(CultureInfo.InvariantCulture, $"{duration.TotalSeconds:N3}"),
    ];

    private static string[] LatencyRow(string name, LatencySample sample) =>
    [
        name, Time(sample, 0.5), Time(sample, 0.99), Time(sample, 0.999), Time(sample, 1), Report.Number(sample.Count),
    ];

    private static string Time(LatencySample sample, double share)
    {
        double microseconds = sample.Percentile(share).TotalMicroseconds;
        return sample.Count == 0 ? "-" : microseconds < 10_000
            ? string.Create(CultureInfo.InvariantCulture, $"{microseconds:N1} us")
            : string.Create(CultureInfo.InvariantCulture, $"{microseconds / 1000:N1} ms");
    }

    private static void PrintDeaths(DemoResult result)
    {
        string title = OperatingSystem.IsWindows() ? "Killed with TerminateProcess" : "Killed with SIGKILL";
        Report report = new(title, "at", "who", "pid", "when", "after messages", "unread", "went on");
        foreach (DemoDeath death in result.Deaths)
        {
            report.Add(
                string.Create(CultureInfo.InvariantCulture, $"{death.At.TotalSeconds:N2} s"),
                death.Role,
                death.ProcessId.ToString(CultureInfo.InvariantCulture),
                death.What,
                Report.Number(death.Messages),
                death.Role == "consumer" ? Report.Number(death.Unread) : "-",
                string.Create(CultureInfo.InvariantCulture, $"pid {death.Successor}"));
        }

        report.Write();
    }
}

using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Check;

/// <summary>`mfq check`: one line and an exit code for a monitoring system.</summary>
internal static class CheckCommand
{
    public const string Name = "check";

    private static readonly TimeSpan s_claimMaxDefault = TimeSpan.FromSeconds(1);

    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it may be in use.");
        Option<string[]> consumer = new("--consumer")
        {
            Description = "A consumer that must exist; only these count. Without it, all that there are. May be repeated.",
            HelpName = "NAME",
        };
        consumer.Validators.Add(result =>
        {
            foreach (string name in result.Tokens.Select(token => token.Value).Where(name => !StoreNames.IsValidConsumer(name)))
                result.AddError($"A consumer's name has at most 100 of the characters A-Z a-z 0-9 . _ - : {name}.");
        });
        Option<long?> maxLag = ToolOptions.Size("--max-lag", "More bytes unread are critical.", 0, long.MaxValue);
        Option<long?> warnLag = ToolOptions.Size("--warn-lag", "More bytes unread are a warning.", 0, long.MaxValue);
        Option<TimeSpan?> maxAge = ToolOptions.Duration(
            "--max-age",
            "A message that has waited longer for a consumer is critical. Each checkpoint notes the time, so the alarm is late "
                + "by a tenth of the age and two seconds at most; without flushes, by as much as a segment takes to fill.");
        Option<TimeSpan?> warnAge = ToolOptions.Duration("--warn-age", "As --max-age, as a warning.");
        Option<long?> maxUnflushed = ToolOptions.Size(
            "--max-unflushed", "More appended bytes that are not on disk are critical.", 0, long.MaxValue);
        Option<long?> minFree = ToolOptions.Size("--min-free", "Less free room on the disk is critical.", 1, long.MaxValue);
        Option<long?> maxLetters = ToolOptions.Number(
            "--max-letters", "STORE holds dead letters: more that nobody has settled are critical.", 0, long.MaxValue);
        Option<TimeSpan?> maxClaim = ToolOptions.Wait(
            "--max-claim", "A claim that stands in the readers' way for longer is critical; default 1s.");
        Command command = new(
            Name,
            "One line and an exit code for monitoring: `mfq check orders --max-lag 64MiB --max-age 5m`. It only reads, and works "
                + "while the programs hang. A failed flush, damage that keeps producers out, and a claim that blocks are always "
                + "critical. Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also wrong usage).")
        {
            store, consumer, maxLag, warnLag, maxAge, warnAge, maxUnflushed, minFree, maxLetters, maxClaim,
        };
        command.SetAction(parsed =>
        {
            string path = parsed.GetRequiredValue(store);
            CheckLimits limits = new(
                parsed.GetValue(consumer) ?? [],
                parsed.GetValue(warnLag),
                parsed.GetValue(maxLag),
                Finite(parsed.GetValue(warnAge)),
                Finite(parsed.GetValue(maxAge)),
                parsed.GetValue(maxUnflushed),
                parsed.GetValue(minFree),
                parsed.GetValue(maxLetters),
                parsed.GetValue(maxClaim) ?? s_claimMaxDefault);
            CheckResult result;
            try
            {
                result = StoreCheck.Run(path, limits);
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException or ToolException)
            {
                CheckProblem problem = new(CheckStatus.Unknown, OperatorWords.Of(error.Message).ReplaceLineEndings(" "));
                result = new CheckResult(Path.GetFullPath(path), [problem], 0, null, 0, 0, -1);
            }

            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(result, CheckJsonContext.Default.CheckResult);
            else
                Console.Out.WriteLine(TerminalText.ForOutput(Line(result)));
            return (int)result.Status;
        });
        return command;
    }

    /// <summary>No limit is the same as an infinite one.</summary>
    private static TimeSpan? Finite(TimeSpan? time) => time == Timeout.InfiniteTimeSpan ? null : time;

    /// <summary>The status, what is wrong, and behind a bar the values for a system that draws them.</summary>
    private static string Line(CheckResult result)
    {
        string status = result.Status.ToString().ToUpperInvariant();
        if (result.Status == CheckStatus.Unknown)
            return $"{status}: {result.Problems[0].Text}";
        string text = result.Problems.Count > 0
            ? string.Join("; ", result.Problems.OrderByDescending(problem => problem.Status).Select(problem => problem.Text))
            : result.LaggingConsumer is { } name
                ? $"{Report.Bytes(result.Lag)} behind at most ({ConsumersCommand.Show(name)})"
                : "no consumers";
        return string.Create(
            CultureInfo.InvariantCulture,
            $"{status}: {Path.GetFileName(Path.TrimEndingDirectorySeparator(result.StorePath))}: {text.Replace('|', '/')} "
                + $"| lag={result.Lag}B age={result.AgeSeconds:F0}s unflushed={result.Unflushed}B free={result.FreeBytes}B")
            + (result.Letters is { } letters ? $" letters={letters}" : "");
    }
}

using System.CommandLine;
using System.Globalization;
using System.Text.Json.Serialization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Retention;

/// <summary>`mfq trim`: removes the oldest messages of a store, in whole segments.</summary>
internal static class TrimCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it may be in use.");
        Option<string> before = new("--before")
        {
            Description = "An offset, or a time such as 2026-01-31T12:00Z: segments that were completed before it go.",
            HelpName = "OFFSET|TIME",
            Required = true,
        };
        before.Validators.Add(result =>
        {
            if (result.Tokens is [{ Value: { } text }] && ParseOffset(text) is null && ParseTime(text) is null)
                result.AddError($"--before is an offset or a time such as 2026-01-31T12:00Z, not '{text}'.");
        });
        Option<bool> dryRun = ToolOptions.Flag("--dry-run", "Only show what would go.");
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "trim",
            "Remove the messages before an offset or a time, in whole segments, as far as consumers have read them: "
                + "`mfq trim orders --before 1073741824 --dry-run`.")
        {
            store, before, dryRun, allowFileSystem,
        };
        command.SetAction(parsed =>
        {
            using QueueCore queue = AttachedStore.Open(new MappedFileQueueOptions
            {
                StorePath = parsed.GetRequiredValue(store),
                DangerouslyAllowFileSystem = parsed.GetValue(allowFileSystem),
            });
            string text = parsed.GetRequiredValue(before);
            long offset = ParseOffset(text) ?? queue.FindWrittenSince(ParseTime(text)!.Value);
            long first = queue.GetInfo().OldestOffset;
            bool isDry = parsed.GetValue(dryRun);
            long kept = isDry ? queue.FindKept(offset) : queue.Trim(offset);
            if (OutputOption.IsJson(parsed))
            {
                OutputOption.WriteJson(new TrimResult(first, kept, isDry), TrimJsonContext.Default.TrimResult);
                return ExitCodes.Success;
            }

            string verb = isDry ? "would be removed" : "removed";
            OutputLine.Write(
                $"{Report.Bytes(kept - first)} {verb}; the oldest offset is {Report.Number(isDry ? first : kept)}"
                + (isDry && kept != first ? $", and would be {Report.Number(kept)}." : "."));
            return ExitCodes.Success;
        });
        return command;
    }

    private static long? ParseOffset(string text) =>
        long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long offset) ? offset : null;

    private static DateTimeOffset? ParseTime(string text) => DateTimeOffset.TryParse(
        text, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out DateTimeOffset time) ? time : null;
}

/// <summary>The result of `mfq trim`.</summary>
/// <param name="FirstOffset">The oldest offset before.</param>
/// <param name="KeptOffset">The oldest offset that is kept.</param>
/// <param name="IsDryRun">Nothing was removed.</param>
internal sealed record TrimResult(long FirstOffset, long KeptOffset, bool IsDryRun);

/// <summary>The JSON of `mfq trim`.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(TrimResult))]
internal sealed partial class TrimJsonContext : JsonSerializerContext;

using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.Retention;

/// <summary>`mfq trim`: removes the oldest messages of a store, in whole segments.</summary>
internal static class TrimCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; it may be in use.");
        Option<string> before = ToolOptions.Value(
            "--before", "An offset, or a time such as 2026-01-31T12:00Z: segments that were completed before it go.",
            "OFFSET|TIME", "an offset or a time such as 2026-01-31T12:00Z",
            text => ToolOptions.ParseOffset(text) is null && ToolOptions.ParseDate(text) is null ? null : text);
        before.Required = true;
        Option<bool> dryRun = ToolOptions.Flag("--dry-run", "Only show what would go.");
        StoreOptions opening = new(lockHelp: null);
        return new Command(
            "trim",
            "Remove the messages before an offset or a time, in whole segments, as far as consumers have read them: "
                + "`mfq trim orders --before 1073741824 --dry-run`.")
        {
            store, before, dryRun, opening,
        }.Does(parsed =>
        {
            using StoreEngine queue = opening.Open(parsed, store);
            string text = parsed.GetRequiredValue(before);
            long offset = ToolOptions.ParseOffset(text) ?? queue.FindWrittenSince(ToolOptions.ParseDate(text)!.Value);
            long first = queue.GetInfo().LogStart;
            bool isDry = parsed.GetValue(dryRun);
            long kept = isDry ? queue.FindKept(offset) : queue.Trim(offset);
            return Result.Write(
                parsed, new TrimResult(first, kept, isDry), ToolJson.Default.TrimResult,
                $"{Report.Bytes(kept - first)} {(isDry ? "would be removed" : "removed")}; "
                    + $"the log start is {Report.Number(isDry ? first : kept)}"
                    + (isDry && kept != first ? $", and would be {Report.Number(kept)}." : "."));
        });
    }
}

/// <summary>The result of `mfq trim`.</summary>
internal sealed record TrimResult(long FirstOffset, long KeptOffset, bool IsDryRun);

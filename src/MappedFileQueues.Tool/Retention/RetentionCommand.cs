using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.Retention;

/// <summary>`mfq retention`: shows or sets how much of its past a store keeps.</summary>
internal static class RetentionCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; it may be in use.");
        Option<bool> show = ToolOptions.Flag("--show", "Show the policy; the default without any other option.");
        Option<bool> none = ToolOptions.Flag("--none", "Keep everything.");
        Option<long?> maxBytes = ToolOptions.Size("--max-bytes", "The most bytes that the segments take.", 1);
        Option<TimeSpan?> maxAge = ToolOptions.Limit("--max-age", "How long a segment is kept after it was completed.");
        Option<long?> minFree = ToolOptions.Size("--min-free", "The least bytes of the disk that stay free.", 1);
        Option<bool> dropUnread = ToolOptions.Flag("--drop-unread", "Remove messages whether consumers have read them or not.");
        Option<long?> unreadMax = ToolOptions.Size(
            "--max-unread", "A consumer that is further behind keeps nothing any longer.", 1);
        Option<bool> noRecycle = ToolOptions.Flag("--no-recycle", "Delete the files of removed segments; do not use them again.");
        StoreOptions opening = new(lockHelp: null);
        Command command = new(
            "retention",
            "Show or set how much of its past a store keeps: `mfq retention orders --max-bytes 10GiB --max-age 72h`. The options "
                + "of one call replace the policy before.")
        {
            store, show, none, maxBytes, maxAge, minFree, dropUnread, unreadMax, noRecycle, opening,
        };
        command.Validators.Add(result =>
        {
            bool IsGiven(params Option[] options) => options.Any(option => result.GetResult(option) is not null);
            bool isSet = IsGiven(maxBytes, maxAge, minFree);
            bool refines = IsGiven(dropUnread, unreadMax, noRecycle);
            if (((isSet || refines) && IsGiven(show, none)) || (IsGiven(show) && IsGiven(none)))
                result.AddError("--show and --none go with no other option.");
            else if (refines && !isSet)
                result.AddError("Give a limit: --max-bytes, --max-age or --min-free.");
        });
        return command.Does(parsed =>
        {
            string path = parsed.GetRequiredValue(store);
            var policy = new RetentionOptions
            {
                MaxBytes = parsed.GetValue(maxBytes),
                MaxAge = parsed.GetValue(maxAge) is { } age && age >= TimeSpan.Zero ? age : null,
                MinFreeBytes = parsed.GetValue(minFree),
                KeepUnconsumed = !parsed.GetValue(dropUnread),
                UnconsumedBytesMax = parsed.GetValue(unreadMax),
                Recycle = !parsed.GetValue(noRecycle),
            };
            // An infinite age is a policy too: the one that keeps everything.
            bool sets = parsed.GetValue(none) || parsed.GetResult(maxAge) is not null || policy != new RetentionOptions();
            if (sets)
            {
                using StoreEngine queue = opening.Open(parsed, store);
                queue.SetRetention(policy);
                if (policy.MaxBytes < queue.Store.Meta.SegmentLength)
                {
                    ErrorLine.Write($"The newest segment stays, and is longer: maxBytes={policy.MaxBytes}, "
                        + $"segmentSize={queue.Store.Meta.SegmentLength}.", ExitCodes.Success);
                }

                queue.ApplyRetention();
            }

            return Result.Write(parsed, StoreInspector.Inspect(path), ToolJson.Default.MappedFileQueueInfo, Print);
        });
    }

    private static void Print(MappedFileQueueInfo info)
    {
        Report report = new("Retention", "", "");
        report.Add("policy", PolicyText.Of(info));
        report.Add("log start", Report.Number(info.LogStart));
        if (PolicyText.HeldBack(info) is { } held)
            report.Add("held back", held);
        report.Write();
    }
}

using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>`mfq deadletters retry` and `delete`.</summary>
internal static class SettleCommand
{
    public static Command CreateRetry()
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        Argument<string> queue = ToolOptions.Store(
            "The queue's store, to which the messages are appended again; it is never created.");
        Option<bool> anySource = ToolOptions.Flag(
            "--from-any-store", "Also letters whose message lay in another store, such as one that was restored since.");
        LetterFilter filter = new(isRequired: true);
        StoreOptions opening = new();
        return new Command(
            "retry",
            "Append the messages of letters to their queue again, and settle the letters: "
                + "`mfq deadletters retry orders-dead-letters orders --error Timeout`. Every consumer of the queue gets them. "
                + "Repeat a command that was killed: no message comes twice.")
        {
            letters, queue, anySource, filter, opening,
        }.Does(parsed =>
        {
            using StoreEngine target = opening.Open(parsed, queue);
            return Settle(parsed, opening, letters, target, filter, parsed.GetValue(anySource));
        });
    }

    public static Command CreateDelete()
    {
        Argument<string> letters = DeadLettersCommand.LettersArgument();
        LetterFilter filter = new(isRequired: true);
        StoreOptions opening = new();
        return new Command(
            "delete", "Settle letters without doing anything: `mfq deadletters delete orders-dead-letters --offset 4096`.")
        {
            letters, filter, opening,
        }.Does(parsed => Settle(parsed, opening, letters, null, filter, fromAnyStore: true));
    }

    private static int Settle(
        ParseResult parsed, StoreOptions opening, Argument<string> letters, StoreEngine? target, LetterFilter filter,
        bool fromAnyStore)
    {
        using Interruption interruption = new();
        string path = parsed.GetRequiredValue(letters);
        SettledLetters settled = LetterStore.Existing(opening.Of(parsed, path))
            .Settle(target, filter.Of(parsed), fromAnyStore, interruption.Token);
        SettleResult result = new(settled.Count, LetterStore.Count(path), settled.IsComplete);
        return Result.Write(
            parsed, result, ToolJson.Default.SettleResult,
            (settled.IsComplete ? "" : "Interrupted. ") + (target is null ? "Deleted" : "Retried")
                + $" {Report.Count(settled.Count, "letter")}; {Report.Number(result.Left)} left.",
            settled.IsComplete ? ExitCodes.Success : interruption.ExitCode);
    }
}

/// <summary>The result of `retry` and `delete`.</summary>
internal sealed record SettleResult(long Settled, long Left, bool IsComplete);

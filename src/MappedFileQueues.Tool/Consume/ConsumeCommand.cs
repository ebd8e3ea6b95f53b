using System.CommandLine.Parsing;

namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq consume`: writes the messages of a store to standard output.</summary>
internal static class ConsumeCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store();
        Option<string?> consumer = ConsumerName.Option(
            "--consumer",
            $"Begin at the offset of this consumer; {ConsumerName.Help}. Without it: at the first message, as a reader that "
                + "leaves no trace.");
        Option<bool> commit = ToolOptions.Flag(
            "--commit",
            "Commit, as that consumer, what has been written, also when a signal ends the command. Without it the consumer "
                + "does not move.");
        Option<QueueStart?> from = ToolOptions.Place(
            "--from",
            "Begin there instead of at the consumer's offset; with --commit the consumer moves there at once.",
            "start", "end");
        Option<long?> last = ToolOptions.Number(
            "--last", "Begin this many messages before the end, as --from does.", 0, long.MaxValue);
        Option<bool> skipDamage = ToolOptions.Flag(
            "--skip-damage",
            "Continue after damage, with the next message that can be proved to be one. Each skip is reported on standard "
                + "error, one line each, and does not change the exit code.");
        Option<bool> follow = ToolOptions.Flag("--follow", "Wait for more messages at the end, until Ctrl-C.");
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        FormatOptions format = new();
        StoreOptions opening = new();

        Command command = new(
            "consume",
            "Write a store's messages to standard output: `mfq consume orders --consumer billing --commit`.")
        {
            store, consumer, commit, from, last, skipDamage, follow, count, opening, format,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(commit) is not null && result.GetResult(consumer) is null)
                result.AddError("--commit needs --consumer.");
            if (result.GetResult(from) is not null && result.GetResult(last) is not null)
                result.AddError("--from and --last exclude each other.");
            if ((result.GetResult(from) ?? result.GetResult(last)) is { } place
                && result.GetResult(consumer) is not null && result.GetResult(commit) is null)
            {
                result.AddError(
                    $"{place.Option.Name} and --consumer name two offsets to begin at; with --commit the consumer moves.");
            }
        });
        return command.Does(parsed =>
        {
            string path = parsed.GetRequiredValue(store);
            ConsumePlan plan = new(path)
            {
                Consumer = parsed.GetValue(consumer),
                Committing = parsed.GetValue(commit) ? opening.Of(parsed, path) : null,
                From = parsed.GetValue(from),
                LastCount = parsed.GetValue(last),
                SkipsDamage = parsed.GetValue(skipDamage),
            };
            return MessagePrinter.Run(
                plan, parsed.GetValue(follow), parsed.GetValue(count) ?? long.MaxValue, format.Of(parsed, path));
        });
    }
}

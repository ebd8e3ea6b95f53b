using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consumers;

namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq consume`: writes the messages of a store to standard output.</summary>
internal static class ConsumeCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is never created.");
        Option<string?> consumer = ConsumerName.Option(
            "--consumer",
            $"Begin at the offset of this consumer; {ConsumerName.Help}. Without it: at the first message, as a reader that "
                + "leaves no trace.");
        Option<bool> commit = ToolOptions.Flag(
            "--commit",
            "Commit, as that consumer, what has been written, also when a signal ends the command. Without it the consumer "
                + "does not move.");
        Option<string?> from = new("--from")
        {
            Description = "Begin at this offset, at the first message, or after the last one, instead of at the consumer's "
                + "offset; with --commit the consumer moves there at once.",
            HelpName = "OFFSET|start|end",
        };
        Option<long?> last = ToolOptions.Number(
            "--last", "Begin this many messages before the end, as --from does.", 0, long.MaxValue);
        Option<bool> skipDamage = ToolOptions.Flag(
            "--skip-damage",
            "Continue after damage, with the next message that can be proved to be one. Each skip is reported on standard "
                + "error, one line each, and does not change the exit code.");
        Option<bool> follow = ToolOptions.Flag("--follow", "Wait for more messages at the end, until Ctrl-C.");
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        FormatOptions format = new();
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();

        Command command = new(
            "consume",
            "Write a store's messages to standard output: `mfq consume orders --consumer billing --commit`.")
        {
            store, consumer, commit, from, last, skipDamage, follow, count, lockTimeout, allowFileSystem,
        };
        format.AddTo(command);
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

            if (result.GetValue(from) is { } text && TryParseStart(text) is null)
                result.AddError($"--from is an offset, start or end, not '{text}'.");
        });
        command.SetAction(parsed =>
        {
            ConsumePlan plan = new(
                parsed.GetRequiredValue(store),
                parsed.GetValue(consumer),
                parsed.GetValue(commit),
                parsed.GetValue(from) is { } text ? TryParseStart(text) : null,
                parsed.GetValue(last),
                parsed.GetValue(skipDamage),
                parsed.GetValue(lockTimeout) ?? TimeSpan.Zero,
                parsed.GetValue(allowFileSystem));
            return MessagePrinter.Run(
                plan, parsed.GetValue(follow), parsed.GetValue(count) ?? long.MaxValue, format.Of(parsed, plan.StorePath));
        });
        return command;
    }

    private static QueueStart? TryParseStart(string text) => text switch
    {
        "start" => QueueStart.Earliest,
        "end" => QueueStart.Latest,
        _ => long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long offset)
            ? QueueStart.FromOffset(offset)
            : null,
    };
}

using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>`mfq consumers reset`: moves the stored offset of a consumer that is not open.</summary>
internal static class ResetCommand
{
    public static Command Create()
    {
        Argument<string> store = ConsumersCommand.StoreArgument();
        Argument<string> name = ConsumersCommand.NameArgument();
        Option<string> to = new("--to")
        {
            Description = "The first message, after the last one, or an offset that `mfq consume --format json` shows.",
            HelpName = "earliest|latest|OFFSET",
            Required = true,
        };
        to.Validators.Add(result =>
        {
            if (result.Tokens is [{ Value: { } text }] && TryParse(text) is null)
                result.AddError($"--to is earliest, latest or an offset, not '{text}'.");
        });
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "reset",
            "Move a consumer that is not open, or create it; a damaged offset is replaced: "
                + "`mfq consumers reset orders billing --to latest`.")
        {
            store, name, to, lockTimeout, allowFileSystem,
        };
        command.SetAction(parsed =>
        {
            string consumer = parsed.GetRequiredValue(name);
            using QueueCore queue = ConsumersCommand.Open(
                parsed.GetRequiredValue(store), parsed.GetValue(lockTimeout), parsed.GetValue(allowFileSystem));
            long offset = queue.ResetConsumer(consumer, TryParse(parsed.GetRequiredValue(to))!.Value);
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(new ResetResult(consumer, offset), ConsumersJsonContext.Default.ResetResult);
            else
                OutputLine.Write($"{ConsumerName.Show(consumer)} goes on at offset {Report.Number(offset)}.");
            return ExitCodes.Success;
        });
        return command;
    }

    private static QueueStart? TryParse(string text) => text switch
    {
        "earliest" => QueueStart.Earliest,
        "latest" => QueueStart.Latest,
        _ => long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long offset)
            ? QueueStart.FromOffset(offset)
            : null,
    };
}

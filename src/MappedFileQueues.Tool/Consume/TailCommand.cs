using System.CommandLine;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq tail`: shows the last messages of a store and those that come, and leaves no trace.</summary>
internal static class TailCommand
{
    private const int LastDefault = 10;

    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is never created.");
        Option<long?> last = ToolOptions.Number(
            "--last", $"How many messages before the end to begin; default {LastDefault}.", 0, long.MaxValue);
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        Option<bool> noFollow = ToolOptions.Flag("--no-follow", "End at the end of the log instead of waiting for more.");
        FormatOptions format = new();
        Command command = new(
            "tail",
            "Show the last messages and those that come, until Ctrl-C: `mfq tail ticks --struct id:i32,price:f64`. It only "
                + "reads. Damage, and messages that retention removes first, are stepped over, and told on standard error.")
        {
            store, last, count, noFollow,
        };
        format.AddTo(command);
        command.SetAction(parsed =>
        {
            ConsumePlan plan = new(
                parsed.GetRequiredValue(store),
                Consumer: null,
                IsCommitting: false,
                From: null,
                parsed.GetValue(last) ?? LastDefault,
                SkipsDamage: true,
                LockTimeout: TimeSpan.Zero,
                AllowsFileSystem: false)
            {
                OnOutOfRange = OutOfRangePolicy.Earliest,
            };
            return MessagePrinter.Run(
                plan,
                isFollowing: !parsed.GetValue(noFollow),
                parsed.GetValue(count) ?? long.MaxValue,
                format.Of(parsed, plan.StorePath));
        });
        return command;
    }
}

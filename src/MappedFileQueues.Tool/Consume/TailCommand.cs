namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq tail`: shows the last messages of a store and those that come, and leaves no trace.</summary>
internal static class TailCommand
{
    private const int LastDefault = 10;

    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store();
        Option<long?> last = ToolOptions.Number(
            "--last", $"How many messages before the end to begin; default {LastDefault}.", 0, long.MaxValue);
        Option<QueueStart?> from = ToolOptions.Place("--from", "Begin there instead.", "start", "end");
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        Option<bool> noFollow = ToolOptions.Flag("--no-follow", "End at the end of the log instead of waiting for more.");
        FormatOptions format = new();
        Command command = new(
            "tail",
            "Show the last messages and those that come, until Ctrl-C: `mfq tail ticks --struct id:i32,price:f64`. It only "
                + "reads. Damage, and messages that retention removes first, are stepped over, and told on standard error.")
        {
            store, last, from, count, noFollow, format,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(from) is not null && result.GetResult(last) is not null)
                result.AddError("--from and --last exclude each other.");
        });
        return command.Does(parsed =>
        {
            ConsumePlan plan = new(parsed.GetRequiredValue(store))
            {
                From = parsed.GetValue(from),
                LastCount = parsed.GetValue(from) is null ? parsed.GetValue(last) ?? LastDefault : null,
                SkipsDamage = true,
                OnOutOfRange = OutOfRangePolicy.Earliest,
            };
            return MessagePrinter.Run(
                plan, !parsed.GetValue(noFollow), parsed.GetValue(count) ?? long.MaxValue, format.Of(parsed, plan.StorePath));
        });
    }
}

using System.CommandLine;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>`mfq consumers list`: shows the consumers without leaving a trace in the store.</summary>
internal static class ListCommand
{
    public static Command Create()
    {
        Argument<string> store = ConsumersCommand.StoreArgument();
        Option<bool> count = ConsumersCommand.CountOption();
        Command command = new(
            "list", "Show the consumers with their stored offset and how far behind they are: `mfq consumers list orders`.")
        {
            store,
            count,
        };
        command.SetAction(parsed =>
        {
            MappedFileQueueInfo info = StoreLook.InfoWithCounts(parsed.GetRequiredValue(store), parsed.GetValue(count));
            IReadOnlyList<MappedFileConsumerInfo> consumers = info.Consumers;
            foreach (string problem in info.CursorProblems)
                ErrorLine.Write(problem, ExitCodes.Success);
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(new ConsumerList(consumers), ConsumersJsonContext.Default.ConsumerList);
            else
                Table(consumers).Write();
            return ExitCodes.Success;
        });
        return command;
    }

    /// <summary>A number of messages, where they were counted.</summary>
    public static string Count(long? messages) => messages is { } count ? Report.Number(count) : "-";

    /// <summary>The consumers as a report; `mfq info` shows the same.</summary>
    public static Report Table(IReadOnlyList<MappedFileConsumerInfo> consumers)
    {
        Report report = new("Consumers", "name", "offset", "lag in bytes", "in messages", "attached");
        foreach (MappedFileConsumerInfo consumer in consumers)
        {
            report.Add(
                ConsumerName.Show(consumer.Name),
                Report.Number(consumer.Offset),
                Report.Number(consumer.Lag),
                Count(consumer.LagMessages),
                consumer.IsAttached ? "yes" : "no");
        }

        return report;
    }
}

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
        Command command = new(
            "list", "Show the consumers with their stored offset and how far behind they are: `mfq consumers list orders`.")
        {
            store,
        };
        command.SetAction(parsed =>
        {
            IReadOnlyList<MappedFileConsumerInfo> consumers = StoreLook.Info(parsed.GetRequiredValue(store)).Consumers;
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(consumers, ConsumersJsonContext.Default.IReadOnlyListMappedFileConsumerInfo);
            else
                Table(consumers).Write();
            return ExitCodes.Success;
        });
        return command;
    }

    /// <summary>The consumers as a report; `mfq info` shows the same.</summary>
    public static Report Table(IReadOnlyList<MappedFileConsumerInfo> consumers)
    {
        Report report = new("Consumers", "name", "offset", "lag in bytes", "attached");
        foreach (MappedFileConsumerInfo consumer in consumers)
        {
            report.Add(
                ConsumersCommand.Show(consumer.Name),
                Report.Number(consumer.Offset),
                Report.Number(consumer.Lag),
                consumer.IsAttached ? "yes" : "no");
        }

        return report;
    }
}

using MappedFileQueues.Engine;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>`mfq consumers`: the consumers of a store, which are names with a stored offset.</summary>
internal static class ConsumersCommand
{
    /// <summary>How much of a log is counted without being asked: a second's work, when it has to come from a disk.</summary>
    private const long CountedMax = 256L << 20;

    public static Command Create() => new(
        "consumers", "Show, move and remove a store's consumers: `mfq consumers reset orders billing --to latest`.")
    {
        CreateList(), CreateReset(), CreateDelete(), GroupCommands.CreateMembers(), GroupCommands.CreateFence(),
    };

    /// <summary>For the commands that show numbers of messages.</summary>
    public static Option<bool> CountOption() => ToolOptions.Flag(
        "--count", "Count the messages however many there are; without it, logs over 256 MiB are not counted.");

    /// <summary>A snapshot of the store, with its messages counted if there are few or if it is asked for.</summary>
    public static MappedFileQueueInfo InfoWithCounts(string storePath, bool countsAlways)
    {
        MappedFileQueueInfo info = StoreInspector.Inspect(storePath);
        return countsAlways || info.PublishedOffset - info.LogStart <= CountedMax
            ? StoreInspector.Inspect(storePath, countsMessages: true)
            : info;
    }

    /// <summary>The consumers as a report; `mfq info` shows the same.</summary>
    public static Report Table(IReadOnlyList<MappedFileConsumerInfo> consumers)
    {
        Report report = new("Consumers", "name", "offset", "lag in bytes", "in messages", "attached");
        foreach (MappedFileConsumerInfo consumer in consumers)
        {
            report.Add(
                ConsumerName.Show(consumer.Name), Report.Number(consumer.Offset), Report.Number(consumer.Lag),
                Report.Number(consumer.LagMessages, "-"), consumer.IsAttached ? "yes" : "no");
        }

        return report;
    }

    /// <summary>Shows the consumers without leaving a trace in the store.</summary>
    private static Command CreateList()
    {
        Argument<string> store = ToolOptions.Store();
        Option<bool> count = CountOption();
        return new Command(
            "list", "Show the consumers with their stored offset and how far behind they are: `mfq consumers list orders`.")
        {
            store, count,
        }.Does(parsed =>
        {
            MappedFileQueueInfo info = InfoWithCounts(parsed.GetRequiredValue(store), parsed.GetValue(count));
            foreach (string problem in info.CursorProblems)
                ErrorLine.Write(problem, ExitCodes.Success);
            return Result.Write(
                parsed, new ConsumerList(info.Consumers, info.Groups), ToolJson.Default.ConsumerList,
                list =>
                {
                    Table(list.Consumers).Write();
                    GroupCommands.Table(list.Groups).WriteIfAny();
                });
        });
    }

    private static Command CreateReset()
    {
        Argument<string> store = ToolOptions.Store();
        Argument<string> name = NameArgument();
        Option<QueueStart?> to = ToolOptions.Place(
            "--to", "Where it continues; `mfq consume --format json` shows offsets.", "earliest", "latest");
        to.Required = true;
        Option<bool> isGroup = GroupOption();
        StoreOptions opening = new();
        return new Command(
            "reset",
            "Move a consumer that is not open, or create it; a damaged offset is replaced: "
                + "`mfq consumers reset orders billing --to latest`.")
        {
            store, name, to, isGroup, opening,
        }.Does(parsed =>
        {
            string consumer = parsed.GetRequiredValue(name);
            using StoreEngine queue = opening.Open(parsed, store);
            QueueStart start = parsed.GetRequiredValue(to)!.Value;
            long offset;
            if (parsed.GetValue(isGroup))
            {
                queue.ResetGroup(consumer, start);
                offset = GroupCommands.Find(queue.GetInfo(), consumer).FloorOffset;
            }
            else
            {
                offset = queue.ResetConsumer(consumer, start);
            }

            return Result.Write(
                parsed, new ConsumerPlace(consumer, offset), ToolJson.Default.ConsumerPlace,
                $"{ConsumerName.Show(consumer)} continues at offset {Report.Number(offset)}.");
        });
    }

    private static Command CreateDelete()
    {
        Argument<string> store = ToolOptions.Store();
        Argument<string> name = NameArgument();
        Option<bool> isGroup = GroupOption();
        StoreOptions opening = new();
        return new Command(
            "delete", "Remove a consumer that is not open, with its stored offset: `mfq consumers delete orders billing`.")
        {
            store, name, isGroup, opening,
        }.Does(parsed =>
        {
            string consumer = parsed.GetRequiredValue(name);
            using StoreEngine queue = opening.Open(parsed, store);
            if (parsed.GetValue(isGroup))
            {
                if (!queue.DeleteGroup(consumer))
                    throw GroupCommands.None(consumer, queue.Store.Path);
            }
            else if (!queue.DeleteConsumer(consumer))
            {
                throw new ToolException($"There is no such consumer: consumer=\"{consumer}\", path={queue.Store.Path}. "
                    + "`mfq consumers list` shows those that there are.");
            }

            return Result.Write(
                parsed, new DeletedConsumer(consumer), ToolJson.Default.DeletedConsumer,
                $"{ConsumerName.Show(consumer)} is removed.");
        });
    }

    private static Option<bool> GroupOption() => ToolOptions.Flag("--group", "NAME is a group of competing consumers.");

    private static Argument<string> NameArgument() => ConsumerName.Argument("NAME", $"The consumer; {ConsumerName.Help}.");
}

/// <summary>The result of `list`.</summary>
internal sealed record ConsumerList(
    IReadOnlyList<MappedFileConsumerInfo> Consumers, IReadOnlyList<MappedFileGroupInfo> Groups);

/// <summary>The result of `reset`.</summary>
internal sealed record ConsumerPlace(string Name, long Offset);

/// <summary>The result of `delete`.</summary>
internal sealed record DeletedConsumer(string Name);

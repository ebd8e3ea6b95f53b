using System.CommandLine;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>`mfq consumers delete`: removes a consumer that is not open.</summary>
internal static class DeleteCommand
{
    public static Command Create()
    {
        Argument<string> store = ConsumersCommand.StoreArgument();
        Argument<string> name = ConsumersCommand.NameArgument();
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "delete", "Remove a consumer that is not open, with its stored offset: `mfq consumers delete orders billing`.")
        {
            store, name, lockTimeout, allowFileSystem,
        };
        command.SetAction(parsed =>
        {
            string consumer = parsed.GetRequiredValue(name);
            string path = parsed.GetRequiredValue(store);
            using QueueCore queue = ConsumersCommand.Open(path, parsed.GetValue(lockTimeout), parsed.GetValue(allowFileSystem));
            if (!queue.DeleteConsumer(consumer))
            {
                throw new ToolException($"There is no such consumer: consumer=\"{consumer}\", path={Path.GetFullPath(path)}. "
                    + "`mfq consumers list` shows those that there are.");
            }

            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(new DeleteResult(consumer), ConsumersJsonContext.Default.DeleteResult);
            else
                OutputLine.Write($"{ConsumerName.Show(consumer)} is removed.");
            return ExitCodes.Success;
        });
        return command;
    }
}

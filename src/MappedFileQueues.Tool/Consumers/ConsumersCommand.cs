using System.CommandLine;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Tool.Consumers;

/// <summary>`mfq consumers`: the consumers of a store, which are names with a stored offset.</summary>
internal static class ConsumersCommand
{
    public static Command Create() => new(
        "consumers", "Show, move and remove a store's consumers: `mfq consumers reset orders billing --to latest`.")
    {
        ListCommand.Create(),
        ResetCommand.Create(),
        DeleteCommand.Create(),
    };

    /// <summary>The first argument of every command.</summary>
    public static Argument<string> StoreArgument() =>
        ToolOptions.PathArgument("STORE", "The store's directory; it is never created.");

    /// <summary>For the commands that show numbers of messages.</summary>
    public static Option<bool> CountOption() => ToolOptions.Flag(
        "--count", "Count the messages however many there are; without it, logs over 256 MiB are not counted.");

    /// <summary>The second argument of the commands that change a consumer.</summary>
    public static Argument<string> NameArgument() => ConsumerName.Argument("NAME", $"The consumer; {ConsumerName.Help}.");

    /// <summary>Attaches to the store for a command that changes a consumer.</summary>
    public static QueueCore Open(string storePath, TimeSpan? lockTimeout, bool allowsFileSystem) =>
        AttachedStore.Open(new MappedFileQueueOptions
        {
            StorePath = storePath,
            LockTimeout = lockTimeout ?? TimeSpan.Zero,
            DangerouslyAllowFileSystem = allowsFileSystem,
        });
}

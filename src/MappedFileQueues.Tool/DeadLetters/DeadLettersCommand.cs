using System.CommandLine;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>`mfq deadletters`: the messages that handlers of hosted consumers have refused.</summary>
internal static class DeadLettersCommand
{
    public static Command Create() => new(
        "deadletters",
        "Show, requeue and delete the messages that an application's handlers have refused: "
            + "`mfq deadletters list orders-dead-letters`.")
    {
        ListCommand.Create(),
        ShowCommand.Create(),
        SettleCommand.CreateRequeue(),
        SettleCommand.CreateDelete(),
    };

    /// <summary>The first argument of every command.</summary>
    public static Argument<string> LettersArgument() =>
        ToolOptions.PathArgument("LETTERS", "The store of the letters; by default it is beside the queue's: QUEUE-dead-letters.");
}

using System.CommandLine;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Bench.Processes;
using MappedFileQueues.Tool.Consume;
using MappedFileQueues.Tool.Demo;
using MappedFileQueues.Tool.Info;
using MappedFileQueues.Tool.Output;
using MappedFileQueues.Tool.Produce;

namespace MappedFileQueues.Tool;

/// <summary>`mfq`: the main job, shown and measured, and a look into any store.</summary>
internal static class Program
{
    /// <summary>
    /// Errors and signals are handled here and by the commands: the library's own handlers would print a stack trace, and take
    /// the signals from the commands that end in an orderly way.
    /// </summary>
    private static readonly InvocationConfiguration s_invocation = new()
    {
        EnableDefaultExceptionHandler = false,
        ProcessTerminationTimeout = null,
    };

    private static int Main(string[] arguments)
    {
        // The core chooses its platform at first use, so this comes before everything else.
        if (arguments is [SelfLauncher.PortableArgument, ..])
        {
            AppContext.SetSwitch(SelfLauncher.PortableSwitch, true);
            arguments = arguments[1..];
        }

        try
        {
            // A process of the bench is on the clock from its start: the command line's own code would be a third of that.
            if (arguments is ["bench", ChildCommand.Name, .. string[] task])
                return ChildCommand.Run(task);
            ParseResult parsed = CreateRoot().Parse(arguments);
            return parsed.Errors.Count > 0 ? UsageErrors.Write(parsed) : parsed.Invoke(s_invocation);
        }
        catch (Exception exception) when (exception is IOException or UnauthorizedAccessException or ToolException)
        {
            return ErrorLine.Write(exception.Message, ExitCodes.Failure);
        }
        catch (Exception exception)
        {
            string place = exception.StackTrace?.TrimStart().Split('\n')[0] ?? "";
            return ErrorLine.Write(
                $"This is an error of mfq itself, please report it: {exception.GetType().Name}: {exception.Message} {place}",
                ExitCodes.Failure);
        }
    }

    private static RootCommand CreateRoot()
    {
        RootCommand root = new($"A persistent queue between processes: one directory, no broker. {ExitCodes.Help}");
        root.Add(OutputOption.Option);
        root.Add(DemoCommand.Create());
        root.Add(ProduceCommand.Create());
        root.Add(ConsumeCommand.Create());
        root.Add(InfoCommand.Create());
        root.Add(Pack.PackCommand.Create());
        root.Add(Bench.BenchCommand.Create());
        foreach (Command command in DemoCommand.CreateChildCommands())
            root.Add(command);
        return root;
    }
}

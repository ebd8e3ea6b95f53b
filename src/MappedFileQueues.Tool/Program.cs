using System.CommandLine;
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
            if (parsed.Errors.Count > 0)
            {
                parsed.Invoke();
                return ExitCodes.Usage;
            }

            return parsed.Invoke(new InvocationConfiguration { EnableDefaultExceptionHandler = false });
        }
        catch (Exception exception) when (exception is IOException or UnauthorizedAccessException or ToolException)
        {
            return ErrorLine.Write(exception.Message, ExitCodes.Failure);
        }
    }

    private static RootCommand CreateRoot()
    {
        RootCommand root = new($"A persistent queue between processes: one directory, no broker. {ExitCodes.Help}");
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

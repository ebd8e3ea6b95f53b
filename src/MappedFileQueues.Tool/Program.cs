using System.CommandLine;
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

        ParseResult parsed = CreateRoot().Parse(arguments);
        if (parsed.Errors.Count > 0)
        {
            parsed.Invoke();
            return ExitCodes.Usage;
        }

        try
        {
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

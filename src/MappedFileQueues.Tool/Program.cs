using System.CommandLine;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Bench;
using MappedFileQueues.Tool.Bridge;
using MappedFileQueues.Tool.Consume;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.Demo;
using MappedFileQueues.Tool.Info;
using MappedFileQueues.Tool.Output;
using MappedFileQueues.Tool.Produce;
using MappedFileQueues.Tool.Retention;
using MappedFileQueues.Tool.Snapshots;

namespace MappedFileQueues.Tool;

/// <summary>`mfq`: shows and measures the main job, and looks into any store.</summary>
internal static class Program
{
    private static int Main(string[] arguments) => ToolProgram.Run(arguments, CreateRoot);

    private static RootCommand CreateRoot()
    {
        RootCommand root = new($"A persistent queue between processes: one directory, no broker. {ExitCodes.Help}");
        root.Add(OutputOption.Option);
        root.Add(DemoCommand.Create());
        root.Add(ProduceCommand.Create());
        root.Add(ConsumeCommand.Create());
        root.Add(InfoCommand.Create());
        root.Add(ConsumersCommand.Create());
        root.Add(SnapshotCommand.Create());
        root.Add(RetentionCommand.Create());
        root.Add(TrimCommand.Create());
        root.Add(Pack.PackCommand.Create());
        root.Add(BridgeCommand.Create());
        root.Add(SmallBench.Create());
        foreach (Command command in DemoCommand.CreateChildCommands())
            root.Add(command);
        return root;
    }
}

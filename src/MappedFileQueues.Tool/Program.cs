using System.CommandLine;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Bench;
using MappedFileQueues.Tool.Bridge;
using MappedFileQueues.Tool.Check;
using MappedFileQueues.Tool.Completion;
using MappedFileQueues.Tool.Consume;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.DeadLetters;
using MappedFileQueues.Tool.Fence;
using MappedFileQueues.Tool.Info;
using MappedFileQueues.Tool.Output;
using MappedFileQueues.Tool.Produce;
using MappedFileQueues.Tool.Repair;
using MappedFileQueues.Tool.Retention;
using MappedFileQueues.Tool.Snapshots;
using MappedFileQueues.Tool.Top;
using MappedFileQueues.Tool.Transfer;
using MappedFileQueues.Tool.Verify;

namespace MappedFileQueues.Tool;

/// <summary>`mfq`: writes to, reads from, and looks into any store.</summary>
internal static class Program
{
    private static int Main(string[] arguments) => ToolProgram.Run(arguments, CreateRoot);

    public static RootCommand CreateRoot()
    {
        RootCommand root = new($"A persistent queue between processes: one directory, no broker. {ExitCodes.Help}");
        root.Add(OutputOption.Option);
        root.Add(ProduceCommand.Create());
        root.Add(ConsumeCommand.Create());
        root.Add(TailCommand.Create());
        root.Add(InfoCommand.Create());
        root.Add(VerifyCommand.Create());
        root.Add(RepairCommand.Create());
        root.Add(CheckCommand.Create());
        root.Add(FenceCommand.Create());
        root.Add(TopCommand.Create());
        root.Add(ExportCommand.Create());
        root.Add(ImportCommand.Create());
        root.Add(ReplayCommand.Create());
        root.Add(ConsumersCommand.Create());
        root.Add(DeadLettersCommand.Create());
        root.Add(SnapshotCommand.Create());
        root.Add(RetentionCommand.Create());
        root.Add(TrimCommand.Create());
        root.Add(Pack.PackCommand.Create());
        root.Add(BridgeCommand.Create());
        root.Add(SmallBench.Create());
        root.Add(CompletionCommand.Create());
        return root;
    }
}

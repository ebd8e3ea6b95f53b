using MappedFileQueues.Tool.Bench;
using MappedFileQueues.Tool.Bridge;
using MappedFileQueues.Tool.Completion;
using MappedFileQueues.Tool.DeadLetters;
using MappedFileQueues.Tool.Fence;
using MappedFileQueues.Tool.Info;
using MappedFileQueues.Tool.Produce;
using MappedFileQueues.Tool.Repair;
using MappedFileQueues.Tool.Retention;
using MappedFileQueues.Tool.Snapshots;
using MappedFileQueues.Tool.Structs;
using MappedFileQueues.Tool.Top;
using MappedFileQueues.Tool.VersionOne;

namespace MappedFileQueues.Tool;

/// <summary>`mfq`: writes to, reads from, and looks into any store.</summary>
internal static class Program
{
    private static int Main(string[] arguments) => ToolProgram.Run(arguments, CreateRoot);

    public static RootCommand CreateRoot() =>
        new($"A persistent queue between processes: one directory, no broker. {ExitCodes.Help}")
    {
        OutputOption.Option, ProduceCommand.Create(), ConsumeCommand.Create(), TailCommand.Create(), InfoCommand.Create(),
        VerifyCommand.Create(), RepairCommand.Create(), CheckCommand.Create(), FenceCommand.Create(), TopCommand.Create(),
        ExportCommand.Create(), ImportCommand.Create(), ImportVersionOneCommand.Create(), ReplayCommand.Create(),
        ConsumersCommand.Create(), DeadLettersCommand.Create(), SnapshotCommand.Create(), RetentionCommand.Create(),
        TrimCommand.Create(), Pack.PackCommand.Create(), BridgeCommand.Create(), StructCommand.Create(), SmallBench.Create(),
        CompletionCommand.Create(),
    };
}

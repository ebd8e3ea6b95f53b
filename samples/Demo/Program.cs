using System.CommandLine;
using MappedFileQueues.Demo.Bridge;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Bridge;

namespace MappedFileQueues.Demo;

/// <summary>The main job on real input: processes are killed on the way, and what comes out is compared.</summary>
internal static class Program
{
    /// <summary>Precedes the arguments of a forwarder or fetcher, which this program then is.</summary>
    public const string BridgeProcess = "bridge-process";

    private static int Main(string[] arguments) => arguments is [BridgeProcess, .. string[] rest]
        ? ToolProgram.Run(rest, () => new RootCommand { OutputOption.Option, BridgeCommand.Create() })
        : ToolProgram.Run(arguments, CreateRoot);

    private static RootCommand CreateRoot()
    {
        RootCommand root = DemoCommand.Create();
        root.Add(BridgeDemoCommand.Create());
        foreach (Command command in DemoCommand.CreateChildCommands())
            root.Add(command);
        return root;
    }
}

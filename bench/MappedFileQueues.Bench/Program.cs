using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench;

/// <summary>The project's own figures: every promise of speed beside the raw loop that limits it.</summary>
internal static class Program
{
    private static int Main(string[] arguments) => ToolProgram.Run(arguments, BenchCommand.Create, RunChild);

    /// <summary>A child of the bench is measured from its start: the command line's own code would be a third of it.</summary>
    private static int? RunChild(string[] arguments) =>
        arguments is [ChildCommand.Name, .. string[] task] ? ChildCommand.Run(task) : null;
}

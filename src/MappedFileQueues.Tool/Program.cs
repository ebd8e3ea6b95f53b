using System.CommandLine;

namespace MappedFileQueues.Tool;

internal static class Program
{
    private static int Main(string[] arguments) =>
        new RootCommand("A persistent queue between processes.").Parse(arguments).Invoke();
}

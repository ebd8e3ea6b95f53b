using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.Processes;

/// <summary>
/// The hidden verb that the child processes of a bench run. Every figure has a process of its own, so that the code which the
/// JIT compiler made for one mode is not the code that another is measured with; a child prints its samples as JSON.
/// </summary>
internal static class ChildCommand
{
    public const string Name = "child";

    public static int Run(string[] arguments)
    {
        var task = ChildTask.Parse(arguments);
        EndWithParent();
        using ChildContext context = new(task);
        IReadOnlyList<Samples> samples = task.ProcessCount == 1
            ? ChildRoles.Run(context)
            : PinnedThread.Run(task.Index, () => ChildRoles.Run(context));
        Console.Out.WriteLine(JsonSerializer.Serialize([.. samples], BenchJson.Default.SamplesArray));
        return ExitCodes.Success;
    }

    /// <summary>
    /// A spinning child must not outlive the process that waits for it: the pipe from there ends with it, however it ends.
    /// </summary>
    private static void EndWithParent()
    {
        Stream input = Console.OpenStandardInput();
        Thread watcher = new(() =>
        {
            Span<byte> ignored = stackalloc byte[16];
            while (input.Read(ignored) > 0)
            {
            }

            Process.GetCurrentProcess().Kill();
        })
        {
            IsBackground = true,
            Name = "parent watch",
        };
        watcher.Start();
    }
}

using System.CommandLine;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;
using Spectre.Console;

namespace MappedFileQueues.Demo;

/// <summary>
/// The demo of the queue: a producer and a consumer process, which are killed on the way, and the comparison.
/// </summary>
internal static class DemoCommand
{
    /// <summary>The hidden command of the producer process.</summary>
    public const string ProducerVerb = "demo-producer";

    /// <summary>The hidden command of the consumer process.</summary>
    public const string ConsumerVerb = "demo-consumer";

    private const int SecondsDefault = 15;

    /// <summary>How often the bar on the terminal moves.</summary>
    private static readonly TimeSpan s_barInterval = TimeSpan.FromMilliseconds(50);

    public static RootCommand Create()
    {
        Argument<string[]> files = new("FILE")
        {
            Description = "The text files whose lines are sent, repeatedly up to at least 50 MB; by default all text files below "
                + "the current directory.",
            Arity = ArgumentArity.ZeroOrMore,
        };
        Option<string?> directory = ToolOptions.Path(
            "--dir", "A directory where the store and the output are kept; by default a temporary one that is removed.", "DIR");
        Option<long?> seconds = ToolOptions.Number(
            "--seconds",
            $"Stop sending after this many seconds, by default {SecondsDefault}, but not before 50 MB are sent or 22 s are over.",
            1,
            int.MaxValue);

        RootCommand command = new(
            "Send the lines of files from a producer process to a consumer process, kill both on the way, and compare what came "
            + "out. Exit code 1 on any difference.") { files, directory, seconds };
        command.SetAction(parsed => Run(
            parsed.GetValue(files) ?? [],
            parsed.GetValue(directory),
            TimeSpan.FromSeconds(parsed.GetValue(seconds) ?? SecondsDefault)));
        return command;
    }

    /// <summary>The commands with which the demo starts itself.</summary>
    public static IEnumerable<Command> CreateChildCommands() =>
        [CreateChildCommand(ProducerVerb, DemoProducer.Run), CreateChildCommand(ConsumerVerb, DemoConsumer.Run)];

    private static Command CreateChildCommand(string verb, Func<DemoFolder, int> run)
    {
        Argument<string> folder = new("DIR");
        Command command = new(verb, "A process of the demo.") { folder };
        command.Hidden = true;
        command.SetAction(parsed => run(new DemoFolder(parsed.GetRequiredValue(folder))));
        return command;
    }

    private static int Run(string[] names, string? directory, TimeSpan timeMax)
    {
        using Interruption interruption = new();
        DemoFolder folder = new(directory ?? Directory.CreateTempSubdirectory("mfq-demo-").FullName);
        try
        {
            folder.ThrowIfUsed();
            // Before the directory is made, so that a wrong name leaves none.
            List<InputFile> files = names.Length > 0 ? InputFinder.FromNames(names) : InputFinder.Below(".", folder.Root);
            folder.Prepare();
            return RunIn(folder, InputPlan.Create(files), timeMax, isKept: directory is not null, interruption.Token);
        }
        catch (OperationCanceledException)
        {
            return ErrorLine.Write("Interrupted.", interruption.ExitCode);
        }
        finally
        {
            if (directory is null)
                Directory.Delete(folder.Root, recursive: true);
        }
    }

    private static int RunIn(
        DemoFolder folder, InputPlan plan, TimeSpan timeMax, bool isKept, CancellationToken interrupted)
    {
        bool isPlain = ToolConsole.IsOutputRedirected || TerminalWidth.IsNarrow;
        DemoResult result;
        using (DemoRun run = new(folder, plan, timeMax, interrupted))
            result = isPlain ? run.Execute() : ExecuteWithBar(run, plan);
        DemoReport.Print(result, plan, folder, isKept);
        folder.RemoveSideFiles();
        return result.IsRight ? ExitCodes.Success : ExitCodes.Failure;
    }

    private static DemoResult ExecuteWithBar(DemoRun run, InputPlan plan)
    {
        Progress bars = AnsiConsole.Progress();
        bars.Columns(new TaskDescriptionColumn(), new ProgressBarColumn(), new PercentageColumn());
        return bars.Start(context =>
        {
            ProgressTask sent = context.AddTask("sent", maxValue: plan.TotalLength);
            ProgressTask received = context.AddTask("written out", maxValue: plan.TotalLength);
            Task<DemoResult> result = Task.Run(run.Execute);
            while (!((IAsyncResult)result).AsyncWaitHandle.WaitOne(s_barInterval))
            {
                // A new process starts to count at zero; the bars only move forward.
                sent.Value = Math.Max(sent.Value, run.Sent.Bytes);
                received.Value = Math.Max(received.Value, run.Received.Bytes);
            }

            return result.GetAwaiter().GetResult();
        });
    }
}

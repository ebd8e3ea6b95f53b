using System.Diagnostics;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>Which results are older than what they measure, by the history of the repository.</summary>
/// <param name="root">A checkout.</param>
internal sealed class FigureAge(string root)
{

    /// <summary>What a group measures, as git names paths. Groups that are not named measure the queues.</summary>
    private static readonly Dictionary<string, string[]> s_measured = new()
    {
        ["files"] = ["src/MappedFileQueues.Files", "src/MappedFileQueues.Logging"],
        ["packs"] = ["src/MappedFileQueues.Packs"],
        ["bridge"] = ["src/MappedFileQueues.RabbitMQ"],
    };

    private static readonly string[] s_queues = ["src/MappedFileQueues"];

    /// <summary>What to say about a group that was measured before the last change of what it measures; else null.</summary>
    public string? Missing(string group, BenchReport report)
    {
        string bench = report.Command.Split(' ')[0];
        string last = Git(["log", "-1", "--format=%H", "--", .. s_measured.GetValueOrDefault(bench, s_queues)]).Output.Trim();
        if (last.Length == 0)
            return null;
        bool isCovered = report.Commit.Length >= 7
            && Git("merge-base", "--is-ancestor", last, report.Commit).ExitCode == 0;
        return isCovered
            ? null
            : $"{group}: measured {report.Date}, commit {Short(report.Commit)}, and changed since by {Short(last)}";
    }

    private static string Short(string commit) => commit[..7];

    private (int ExitCode, string Output) Git(params string[] arguments)
    {
        ProcessStartInfo start = new("git", arguments)
        {
            WorkingDirectory = root,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        try
        {
            using Process git = Process.Start(start)!;
            Task<string> errors = git.StandardError.ReadToEndAsync();
            string output = git.StandardOutput.ReadToEnd();
            git.WaitForExit();
            if (arguments[0] == "log" && git.ExitCode != 0)
                throw new ToolException($"git knows no history: folder={root}, {errors.GetAwaiter().GetResult().Trim()}");
            return (git.ExitCode, output);
        }
        catch (System.ComponentModel.Win32Exception exception)
        {
            throw new ToolException($"The age of figures needs git: {exception.Message}");
        }
    }
}

using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.Docs;

/// <summary>The commands that a page tells its reader to type.</summary>
internal static partial class PageCommands
{
    /// <summary>The command that the README gives for the tests, and that .ci/run takes from there.</summary>
    public const string TestCommand = "dotnet test MappedFileQueues.slnx -c Release --filter Category!=Laboratory";

    private const string ToolFromSources = "dotnet run --project src/MappedFileQueues.Tool -c Release -- ";
    private const string InstalledTool = "mfq ";

    /// <summary>The lines of the page's blocks for a shell, in order.</summary>
    public static IEnumerable<string> Of(string text) =>
        ShellBlock().Matches(text).SelectMany(block =>
            block.Groups[1].Value.Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries));

    /// <summary>The arguments of a line that calls the tool.</summary>
    public static string[] ToArguments(string line)
    {
        string? start = new[] { ToolFromSources, InstalledTool }
            .FirstOrDefault(start => line.StartsWith(start, StringComparison.Ordinal));
        Assert.True(start is not null, $"No test knows how to run this command of a page: {line}");
        return line[start.Length..].Split(' ', StringSplitOptions.RemoveEmptyEntries);
    }

    [GeneratedRegex(@"^```sh\s*\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex ShellBlock();
}

using System.Reflection;
using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// What the README tells a newcomer to type works, and prints what the README says; the table of options is complete.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class ReadmeTests : IDisposable
{
    private const string TestCommand = "dotnet test MappedFileQueues.slnx";
    private const string ToolFromSources = "dotnet run --project src/MappedFileQueues.Tool -c Release -- ";
    private const string InstalledTool = "mfq ";


    private static readonly string s_readme = File.ReadAllText(Repository.PathOf("README.md"));

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// One after the other in one folder, because they build on each other. Only the command that runs the tests is left out: it
    /// is what runs this.
    /// </summary>
    [Fact]
    public void Readme_Commands_EndWell()
    {
        File.Copy(Repository.PathOf("README.md"), Path.Combine(_temp.Root, "README.md"));
        List<string[]> commands = [.. Commands().Where(line => line != TestCommand).Select(ToArguments)];
        Assert.Equal(
            [
                "bench", "check", "completion", "consume", "consumers", "demo", "export", "import", "info", "pack", "produce",
                "repair", "replay", "retention", "snapshot", "tail", "top", "trim", "verify",
            ],
            commands.Select(command => command[0]).Distinct().Order());

        foreach (string[] arguments in commands)
        {
            ToolRun run = ToolRun.In(_temp.Root, [], arguments).Expect(0);
            // What was consumed is the same on each machine, so it stands in the README to the letter.
            if (arguments[0] == "consume")
                Assert.Contains(run.Text, s_readme, StringComparison.Ordinal);
        }
    }

    [Fact]
    public void Options_TableOfAQueue_NamesEveryOptionAndNoOther() =>
        Assert.Equal(
            typeof(MappedFileQueueOptions).GetProperties(BindingFlags.Instance | BindingFlags.Public)
                .Select(property => property.Name).Order(),
            OptionRow().Matches(Section("docs/OPTIONS.md", "## A queue: `MappedFileQueueOptions`"))
                .Select(row => row.Groups[1].Value).Order());

    /// <summary>`dotnet run samples/x.cs` is what .ci/run does with every sample.</summary>
    [Fact]
    public void Readme_Samples_AreThere() =>
        Assert.All(
            SampleName().Matches(s_readme).Select(sample => sample.Value),
            sample => Assert.True(File.Exists(Repository.PathOf(sample)), sample));

    private static IEnumerable<string> Commands() =>
        ShellBlock().Matches(s_readme).SelectMany(block =>
            block.Groups[1].Value.Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries));

    private static string[] ToArguments(string line)
    {
        string? start = new[] { ToolFromSources, InstalledTool }
            .FirstOrDefault(start => line.StartsWith(start, StringComparison.Ordinal));
        Assert.True(start is not null, $"No test knows how to run this command of the README: {line}");
        string[] arguments = line[start.Length..].Split(' ', StringSplitOptions.RemoveEmptyEntries);
        return arguments[0] switch
        {
            "demo" => [.. arguments, "--seconds", "1"],
            _ => arguments,
        };
    }

    private static string Section(string page, string title)
    {
        string text = File.ReadAllText(Repository.PathOf(page));
        int start = text.IndexOf(title + "\n", StringComparison.Ordinal);
        Assert.True(start >= 0, title);
        int end = text.IndexOf("\n## ", start, StringComparison.Ordinal);
        return end < 0 ? text[start..] : text[start..end];
    }

    [GeneratedRegex(@"^```sh\s*\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex ShellBlock();

    [GeneratedRegex(@"^\| `(\w+)` \|", RegexOptions.Multiline)]
    private static partial Regex OptionRow();

    [GeneratedRegex(@"samples/[\w-]+\.cs")]
    private static partial Regex SampleName();
}

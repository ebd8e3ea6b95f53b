using System.Diagnostics;
using System.Reflection;
using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// What the README and the page of the command line tell a newcomer to type works, and prints what the page says; the table of
/// options is complete.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class ReadmeTests : IDisposable
{
    /// <summary>The commands whose output the page shows.</summary>
    private const int FirstCommands = 5;

    private const string DemoCommand = "dotnet run --project samples/Demo -c Release";

    private static readonly string s_readme = File.ReadAllText(Repository.PathOf("README.md"));
    private static readonly string s_commandLine = File.ReadAllText(Repository.PathOf("docs/COMMAND_LINE.md"));

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// One after the other in one folder, because they build on each other. Left out are the command that runs the tests, because
    /// it runs this, and `demo` and `bench`, which take seconds and have tests of their own.
    /// </summary>
    [Fact]
    [Trait("Category", "Laboratory")]
    public void Readme_Commands_EndWell()
    {
        File.Copy(Repository.PathOf("README.md"), Path.Combine(_temp.Root, "README.md"));
        string[] lines = [.. Commands().Where(line => line != PageCommands.TestCommand)];
        Assert.Equal(DemoCommand, lines[0]);
        ProcessStartInfo demo = new("dotnet", ["exec", Repository.DemoPath, "--seconds", "1"]) { WorkingDirectory = _temp.Root };
        ToolRun.Start(demo, []).Expect(0);
        List<string[]> commands = [.. lines[1..].Select(PageCommands.ToArguments)];
        Assert.Equal(
            [
                "bench", "check", "completion", "consume", "consumers", "export", "import", "info", "pack", "produce",
                "repair", "replay", "retention", "snapshot", "tail", "top", "trim", "verify",
            ],
            commands.Select(command => command[0]).Distinct().Order());

        List<string> shown = [];
        foreach (string[] arguments in commands.Where(command => command[0] != "bench"))
        {
            ToolRun run = ToolRun.In(_temp.Root, [], arguments).Expect(0);
            // What was consumed is the same on each machine, so the page has it to the letter.
            if (arguments[0] == "consume")
                Assert.Contains(run.Text, s_commandLine, StringComparison.Ordinal);
            if (shown.Count < FirstCommands)
                shown.Add(run.Text);
        }

        AssertSameShape(FirstOutput().Match(s_commandLine).Groups[1].Value, string.Join('\n', shown));
    }

    /// <summary>
    /// The sample of `mfq info` had not been printed by any version: lines were missing from its middle, and others had other
    /// names. Now each line is compared, with any number, time, identity and path in the place of one.
    /// </summary>
    private static void AssertSameShape(string page, string printed)
    {
        string[] expected = page.Split('\n', StringSplitOptions.RemoveEmptyEntries);
        string[] actual = printed.Split('\n', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal(expected.Select(Shape), actual.Select(Shape));
    }

    private static string Shape(string line) =>
        Blanks().Replace(Numbers().Replace(Id().Replace(PathLine().Replace(line, "$1 PATH"), "ID"), "N"), " ");

    [Fact]
    public void Options_TableOfAQueue_NamesEveryOptionAndNoOther() =>
        Assert.Equal(
            typeof(MappedFileQueueOptions).GetProperties(BindingFlags.Instance | BindingFlags.Public)
                .Select(property => property.Name).Order(),
            OptionRow().Matches(Section("docs/OPTIONS.md", "## A queue: `MappedFileQueueOptions`"))
                .Select(row => row.Groups[1].Value).Order());

    /// <summary>`dotnet run samples/x.cs` is what .ci/run does with every sample, in Release.</summary>
    [Fact]
    public void Readme_Samples_AreThere() =>
        Assert.All(
            SampleName().Matches(s_readme).Select(sample => sample.Value),
            sample => Assert.True(File.Exists(Repository.PathOf(sample)), sample));

    private static IEnumerable<string> Commands() => PageCommands.Of(s_readme).Concat(PageCommands.Of(s_commandLine));

    private static string Section(string page, string title)
    {
        string text = File.ReadAllText(Repository.PathOf(page));
        int start = text.IndexOf(title + "\n", StringComparison.Ordinal);
        Assert.True(start >= 0, title);
        int end = text.IndexOf("\n## ", start, StringComparison.Ordinal);
        return end < 0 ? text[start..] : text[start..end];
    }

    [GeneratedRegex(@"^\| `(\w+)` \|", RegexOptions.Multiline)]
    private static partial Regex OptionRow();

    [GeneratedRegex(@"^The first five commands print:\n\n```text\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex FirstOutput();

    [GeneratedRegex(@"^(  path ).*")]
    private static partial Regex PathLine();

    [GeneratedRegex(@"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")]
    private static partial Regex Id();

    [GeneratedRegex(@"\d[\d,.:]*( bytes \([\d.]+ [kMG]B\)| bytes?)?")]
    private static partial Regex Numbers();

    [GeneratedRegex(@" +")]
    private static partial Regex Blanks();

    [GeneratedRegex(@"samples/[\w-]+\.cs")]
    private static partial Regex SampleName();
}

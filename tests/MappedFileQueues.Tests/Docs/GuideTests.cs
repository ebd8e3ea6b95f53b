using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Structure;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// The pages of the guide: what they tell to type works, what they show is compiled, and what they claim was measured.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class GuideTests
{
    private const string SampleCommand = "dotnet run samples/";

    /// <summary>Programs are compiled, commands are run here, and text is only looked at.</summary>
    private static readonly string[] s_testedBlocks = ["csharp", "sh", "text"];

    private static readonly string[] s_pages =
        [.. Repository.SourceFiles("docs/guide", "*.md").Select(Repository.RelativePath)];

    public static TheoryData<string> Pages => [.. s_pages];

    /// <summary>One after the other in one folder, because they build on each other.</summary>
    [Theory]
    [MemberData(nameof(Pages))]
    public void Guide_Commands_EndWell(string page)
    {
        using TempStore temp = new();
        foreach (string line in PageCommands.Of(Text(page)))
        {
            // `dotnet run` of every sample is a step of .ci/run.
            if (line.StartsWith(SampleCommand, StringComparison.Ordinal))
                Assert.True(File.Exists(Repository.PathOf(line["dotnet run ".Length..])), line);
            else
                ToolRun.In(temp.Root, [], PageCommands.ToArguments(line)).Expect(0);
        }
    }

    [Fact]
    public void Guide_Blocks_AreOfAKindThatIsTested() => Violations.None(
        from page in s_pages
        from block in BlockStart().Matches(Text(page))
        where !s_testedBlocks.Contains(block.Groups[1].Value)
        select $"{page}: {block.Value}");

    /// <summary>A figure in the guide is in the page of figures, with its conditions.</summary>
    [Fact]
    public void Guide_Figures_StandWhereTheirConditionsAre()
    {
        string measured = Text("docs/BENCHMARKS.md");
        HashSet<string> known = [.. Figure().Matches(measured).Select(figure => figure.Value)];

        Violations.None(
            from page in s_pages
            from figure in Figure().Matches(Block().Replace(Text(page), ""))
            where !known.Contains(figure.Value)
            select $"{page}: {figure.Value}");
    }

    [Fact]
    public void Guide_Pages_AreAllNamedByTheFirst()
    {
        string first = Text("docs/guide/getting-started.md");

        Assert.All(
            s_pages.Select(page => Path.GetFileName(page)),
            page => Assert.True(page == "getting-started.md" || first.Contains($"({page})", StringComparison.Ordinal), page));
    }

    private static string Text(string page) => File.ReadAllText(Repository.PathOf(page));

    [GeneratedRegex(@"^```(\w+)", RegexOptions.Multiline)]
    private static partial Regex BlockStart();

    [GeneratedRegex(@"^\s*```.*?^\s*```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex Block();

    /// <summary>
    /// With a point or with groups of thousands; small whole numbers are no measurements, nor are versions of Linux.
    /// </summary>
    [GeneratedRegex(@"(?<![\w.,])\d+(,\d{3})+(?![\d,])|(?<!Linux )(?<![\w.,])\d+\.\d+")]
    private static partial Regex Figure();
}

using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Docs;

namespace MappedFileQueues.Tests.Structure;

/// <summary>What every text of the repository keeps to, and what the pages keep to beyond that.</summary>
public sealed partial class DocumentationTests
{
    /// <summary>This file has to name what it forbids.</summary>
    private const string ThisFile = "tests/MappedFileQueues.Tests/Structure/DocumentationTests.cs";

    private static readonly (string What, Regex Pattern)[] s_forbidden =
    [
        ("a mark for unfinished work", Unfinished()),
        ("a path that exists on one machine only", MachinePath()),
        ("a number of our own issue list", IssueNumber()),
        ("the host of a package registry", RegistryHost()),
    ];

    [Fact]
    public void Texts_All_HoldNothingThatBelongsElsewhere() =>
        Violations.None(
            from path in TextFiles()
            let relativePath = Repository.RelativePath(path)
            where relativePath != ThisFile
            from line in File.ReadLines(path).Index()
            from forbidden in s_forbidden
            let match = forbidden.Pattern.Match(line.Item)
            where match.Success
            select $"{relativePath}({line.Index + 1}): {forbidden.What}: {match.Value}");

    [Theory]
    [InlineData("// TODO: later", true)]
    [InlineData("see /home/alice/src/x.cs", true)]
    [InlineData("`/work/thing`", true)]
    [InlineData("C:\\Users\\alice", true)]
    [InlineData("as issue 3 says", true)]
    [InlineData("(issue #12)", true)]
    [InlineData("https://github.com/dotnet/runtime/issues/12345", false)]
    [InlineData("dotnet/runtime issue 12345 tells why", false)]
    [InlineData("reads /proc/self/maps, /sys/kernel and docs/work/items", false)]
    public void Forbidden_Line_IsFoundOnlyWhenItIs(string line, bool isForbidden) =>
        Assert.Equal(isForbidden, s_forbidden.Any(forbidden => forbidden.Pattern.IsMatch(line)));

    [Fact]
    public void Readme_TestCommand_StandsOnALineOfItsOwn() =>
        Assert.Contains(PageCommands.TestCommand, File.ReadLines(Repository.PathOf("README.md")));

    [Fact]
    public void Pages_LinksToFiles_LeadSomewhereInTheRepository() =>
        Violations.None(
            from path in Repository.SourceFiles("", "*.md")
            from match in Link().Matches(File.ReadAllText(path))
            let target = match.Groups[1].Value.Split('#')[0]
            where target.Length > 0 && !target.Contains(':', StringComparison.Ordinal)
            let full = Path.GetFullPath(Path.Combine(Path.GetDirectoryName(path)!, target))
            where !full.StartsWith(Repository.Root, StringComparison.Ordinal) || !Path.Exists(full)
            select $"{Repository.RelativePath(path)}: {match.Groups[1].Value}");

    /// <summary>Every file that is no build output and holds text, the continuous build's own included.</summary>
    private static IEnumerable<string> TextFiles() =>
        Repository.SourceFiles("", "*").Concat(Repository.SourceFiles(".ci", "*"))
            .Where(path => !File.ReadAllBytes(path).AsSpan().Contains((byte)0));

    [GeneratedRegex(@"\b(TODO|FIXME|HACK|XXX)\b")]
    private static partial Regex Unfinished();

    [GeneratedRegex(@"(?<![\w.~}/-])/(home|root|work|workspace|Users|builds)/\w+|\b[A-Z]:\\Users\\")]
    private static partial Regex MachinePath();

    [GeneratedRegex(@"\bissue #?\d{1,3}\b(?!\d)", RegexOptions.IgnoreCase)]
    private static partial Regex IssueNumber();

    [GeneratedRegex(@"\bapi\.nuget\.org\b|\bpypi\.org\b|\bproxy\.golang\.org\b|\bartifactory\b|<add key=""[^""]*"" value=""http")]
    private static partial Regex RegistryHost();

    [GeneratedRegex(@"\]\(([^)\s]+)\)")]
    private static partial Regex Link();
}

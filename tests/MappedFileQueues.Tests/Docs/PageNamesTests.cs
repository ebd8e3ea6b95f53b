using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Structure;
using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// What the pages call by a name is called so. The story: the table of ordered accesses and the page on the protocol named types
/// and members that had been renamed long before.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class PageNamesTests
{
    /// <summary>This file has to name what is nowhere.</summary>
    private const string ThisFile = "tests/MappedFileQueues.Tests/Docs/PageNamesTests.cs";

    /// <summary>Names in code font that belong to others and that no source of ours uses.</summary>
    private static readonly string[] s_namesOfOthers = ["PublishReadyToRun"];

    private static readonly string[] s_sourcePatterns = ["*.cs", "*.csproj", "*.targets", "*.props", "*.c", "*.service"];

    private static readonly Lazy<(string Page, string Text)[]> s_pages = new(() =>
    [
        .. Repository.SourceFiles("", "*.md").Select(path => (Repository.RelativePath(path), File.ReadAllText(path))),
    ]);

    private static readonly Lazy<HashSet<string>> s_wordsOfSources = new(() =>
    [
        .. from pattern in s_sourcePatterns
           from path in Repository.SourceFiles("", pattern)
           where Repository.RelativePath(path) != ThisFile
           from word in Word().Matches(File.ReadAllText(path))
           select word.Value,
    ]);

    [Fact]
    public void Pages_CompoundNamesInCodeFont_StandInTheSources() => Violations.None(FindUnknownNames(s_pages.Value));

    [Fact]
    public void Pages_MembersOfCoreTypes_Exist() => Violations.None(FindUnknownMembers(s_pages.Value));

    [Fact]
    public void Pages_FoldersAndFilesOfTheCore_Exist() => Violations.None(FindUnknownPlaces(s_pages.Value));

    [Fact]
    public void Pages_LinksToHeadings_LeadToOne() => Violations.None(FindUnknownHeadings(s_pages.Value));

    [Theory]
    [InlineData("`NoSuchType` reads")]
    [InlineData("(`SharedWord.ReadAcquire`, `NoSuchType.Read`)")]
    public void FindUnknownNames_NameThatIsNowhere_IsFound(string text) => Assert.Single(FindUnknownNames([("a.md", text)]));

    [Theory]
    [InlineData("`SharedWord.NoSuchMember`", 1)]
    [InlineData("`QueueDiskException.HResult`, which is inherited", 0)]
    [InlineData("`ControlPage.ControlPage`, a constructor", 0)]
    [InlineData("```text\n`SharedWord.NoSuchMember`\n```", 0)]
    public void FindUnknownMembers_MemberThatIsNotThere_IsFound(string text, int count) =>
        Assert.Equal(count, FindUnknownMembers([("a.md", text)]).Count());

    [Theory]
    [InlineData("`Memory/SharedWord`, `Memory/SharedWord.cs`, `Log/Store`", 0)]
    [InlineData("`Memory/NoSuchFile`", 1)]
    public void FindUnknownPlaces_PlaceThatIsNotThere_IsFound(string text, int count) =>
        Assert.Equal(count, FindUnknownPlaces([("a.md", text)]).Count());

    [Theory]
    [InlineData("[x](#two-words)\n\n## Two `words`", 0)]
    [InlineData("[x](#three)\n\n## Two words", 1)]
    public void FindUnknownHeadings_HeadingThatIsNotThere_IsFound(string text, int count) =>
        Assert.Equal(count, FindUnknownHeadings([("a.md", text)]).Count());

    private static IEnumerable<string> FindUnknownNames(IEnumerable<(string Page, string Text)> pages) =>
        from page in pages
        from code in CodeOf(page.Text)
        from name in CompoundName().Matches(code)
        where !s_wordsOfSources.Value.Contains(name.Value) && !s_namesOfOthers.Contains(name.Value)
        select $"{page.Page}: no source has {name.Value}, in `{code}`";

    private static IEnumerable<string> FindUnknownMembers(IEnumerable<(string Page, string Text)> pages) =>
        from page in pages
        from code in CodeOf(page.Text)
        from match in TypeAndMember().Matches(code)
        let types = SourceCompilation.Core.GetSymbolsWithName(match.Groups[1].Value, SymbolFilter.Type)
            .OfType<INamedTypeSymbol>().ToArray()
        where types.Length > 0 && !types.Any(type => HasMember(type, match.Groups[2].Value))
        select $"{page.Page}: {match.Value} is not there";

    private static IEnumerable<string> FindUnknownPlaces(IEnumerable<(string Page, string Text)> pages) =>
        from page in pages
        from code in CodeOf(page.Text)
        where PlaceOfCore().IsMatch(code) && Directory.Exists(PathInCore(code.Split('/')[0]))
        where !Path.Exists(PathInCore(code)) && !File.Exists(PathInCore(code) + ".cs")
        select $"{page.Page}: {code} is not there";

    private static IEnumerable<string> FindUnknownHeadings(IEnumerable<(string Page, string Text)> pages) =>
        from page in pages
        from link in LinkToHeading().Matches(page.Text)
        let file = link.Groups[1].Value
        let text = file.Length == 0
            ? page.Text
            : File.ReadAllText(Path.Combine(Path.GetDirectoryName(Repository.PathOf(page.Page))!, file))
        where !Heading().Matches(text).Any(heading => AnchorOf(heading.Groups[1].Value) == link.Groups[2].Value)
        select $"{page.Page}: no heading for {link.Value}";

    /// <summary>What is in code font within the text; blocks are programs and pictures, and other tests' business.</summary>
    private static IEnumerable<string> CodeOf(string text) =>
        CodeFont().Matches(Block().Replace(text, "")).Select(match => match.Groups[1].Value);

    private static string PathInCore(string relativePath) => Repository.PathOf(SourceCompilation.CoreFolder + relativePath);

    /// <summary>A constructor has the name of its type.</summary>
    private static bool HasMember(INamedTypeSymbol? type, string name) =>
        type is not null
        && (type.Name == name || type.GetMembers(name).Length > 0 || type.GetTypeMembers(name).Length > 0
            || HasMember(type.BaseType, name));

    /// <summary>As GitHub makes it: lower case, hyphens for spaces; other signs go.</summary>
    private static string AnchorOf(string heading) =>
        string.Concat(heading.Trim().ToLowerInvariant()
            .Where(letter => char.IsLetterOrDigit(letter) || letter is ' ' or '-' or '_')
            .Select(letter => letter == ' ' ? '-' : letter));

    [GeneratedRegex(@"\w+")]
    private static partial Regex Word();

    [GeneratedRegex(@"^\s*```.*?^\s*```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex Block();

    [GeneratedRegex(@"`([^`\n]+)`")]
    private static partial Regex CodeFont();

    /// <summary>Two words with capitals at least: FrameHeader, but neither Produce nor WARNING.</summary>
    [GeneratedRegex(@"\b[A-Z][a-z]\w*[A-Z]\w*\b")]
    private static partial Regex CompoundName();

    [GeneratedRegex(@"\b([A-Z]\w+)\.([A-Z]\w+)\b")]
    private static partial Regex TypeAndMember();

    [GeneratedRegex(@"^[A-Z]\w+(/\w+)+(\.cs)?$")]
    private static partial Regex PlaceOfCore();

    [GeneratedRegex(@"\]\(([\w./-]*)#([\w-]+)\)")]
    private static partial Regex LinkToHeading();

    [GeneratedRegex(@"^#+ (.+)$", RegexOptions.Multiline)]
    private static partial Regex Heading();
}

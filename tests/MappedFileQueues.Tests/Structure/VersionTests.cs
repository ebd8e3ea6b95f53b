using System.Xml;
using System.Xml.Linq;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Every package costs its users something: Directory.Packages.props says why each is there, and no project names a version.
/// </summary>
public sealed class VersionTests
{
    [Fact]
    public void PackageVersions_All_HaveTheirReasonAbove() =>
        Violations.None(FindWithoutReason(File.ReadAllText(Repository.PathOf("Directory.Packages.props"))));

    [Theory]
    [InlineData("<P><!-- One. --><PackageVersion Include=\"A\" /><!-- Two. --><PackageVersion Include=\"B\" /></P>", 0)]
    [InlineData("<P><!-- One. --><PackageVersion Include=\"A\" />\n<PackageVersion Include=\"B\" /></P>", 1)]
    [InlineData("<P><PackageVersion Include=\"A\" /></P>", 1)]
    public void FindWithoutReason_PackageWithoutCommentAbove_IsFound(string text, int expected) =>
        Assert.Equal(expected, FindWithoutReason(text).Count());

    [Fact]
    public void Projects_All_LeaveVersionsToTheCentralFile() =>
        Violations.None(
            from path in Repository.SourceFiles("", "*.csproj")
            from reference in XDocument.Load(path).Descendants("PackageReference")
            where reference.Attribute("Version") is not null || reference.Attribute("VersionOverride") is not null
            select $"{Repository.RelativePath(path)}: {reference}");

    /// <summary>A workflow packed three projects by name, and the check that follows it wants every package.</summary>
    [Theory]
    [InlineData(".ci/run", "\"$solution\"")]
    [InlineData(".github/workflows/ci.yml", "MappedFileQueues.slnx")]
    [InlineData(".github/workflows/release.yml", "MappedFileQueues.slnx")]
    public void Workflows_All_PackTheWholeSolution(string path, string solution) =>
        Violations.None(
            from line in File.ReadLines(Repository.PathOf(path))
            where line.Contains("dotnet pack", StringComparison.Ordinal)
                && !line.Contains($"dotnet pack {solution} ", StringComparison.Ordinal)
            select $"{path}: {line.Trim()}");

    /// <summary>A checkout without the history has the version 2.0.0-alpha.0, whatever its tags are.</summary>
    [Theory]
    [InlineData(".github/workflows/ci.yml", 2)]
    [InlineData(".github/workflows/release.yml", 3)]
    public void Workflows_ThatPack_CheckOutTheWholeHistory(string path, int checkouts)
    {
        string[] steps = File.ReadAllText(Repository.PathOf(path)).Split("- uses: actions/checkout@")[1..];
        Assert.Equal(checkouts, steps.Length);
        Assert.All(steps, step => Assert.Contains("fetch-depth: 0", step.Split("      - ")[0], StringComparison.Ordinal));
    }

    private static IEnumerable<string> FindWithoutReason(string text) =>
        from package in XDocument.Parse(text).Descendants("PackageVersion")
        where package.NodesBeforeSelf().LastOrDefault() is not { NodeType: XmlNodeType.Comment }
        select package.ToString();
}

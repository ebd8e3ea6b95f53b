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

    private static IEnumerable<string> FindWithoutReason(string text) =>
        from package in XDocument.Parse(text).Descendants("PackageVersion")
        where package.NodesBeforeSelf().LastOrDefault() is not { NodeType: XmlNodeType.Comment }
        select package.ToString();
}

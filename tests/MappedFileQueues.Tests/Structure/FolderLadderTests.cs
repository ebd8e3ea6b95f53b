namespace MappedFileQueues.Tests.Structure;

/// <summary>The core's folders build on each other in one direction only (docs/ARCHITECTURE.md shows the ladder).</summary>
[Trait("Category", "Slow")]
public sealed class FolderLadderTests
{
    [Fact]
    public void Core_EveryFile_UsesOnlyItsOwnFolderAndThoseBelow() =>
        Violations.None(FolderLadder.FindViolations(SourceCompilation.Core));

    [Fact]
    public void Core_EveryFile_LiesInAKnownFolderWithItsNamespace() =>
        Violations.None(FolderLadder.FindMisplacedFiles(SourceCompilation.Core));

    [Theory]
    [InlineData("private Log.Frames.Walker? _walker;")]
    [InlineData("private static int Use() => Log.Frames.Walker.Steps;")]
    [InlineData("private static object Use() => MakesOne.Make();")]
    [InlineData("private static MappedFileQueue? Use() => null;")]
    public void FindViolations_UseOfAHigherFolder_IsFound(string member)
    {
        IReadOnlyList<string> violations = FolderLadder.FindViolations(SourceCompilation.Compile(
        [
            Source("Memory", "Region", $"namespace MappedFileQueues.Memory; internal class Region {{ {member} }}"),
            Source("Log/Frames", "Walker",
                "namespace MappedFileQueues.Log.Frames; internal class Walker { public static int Steps; }"),
            Source("Queues", "Queue", "namespace MappedFileQueues; public class MappedFileQueue { }"),
            // What a factory of the higher folder makes, although no name of that folder's namespace is written.
            Source("Log/Frames", "MakesOne", "static class MakesOne { public static Walked Make() => new(); } class Walked { }"),
        ]));

        Assert.Contains(violations, violation => violation.Contains("Memory/Region.cs(1)", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("using MappedFileQueues.Memory; namespace MappedFileQueues.Log.Frames; class Walker { Region _region = new(); }")]
    [InlineData("namespace MappedFileQueues.Log.Frames; internal class Walker { /* Reader */ string _name = \"Reader\"; }")]
    [InlineData("namespace MappedFileQueues.Log.Frames; internal class Reader { private Reader? _next; }")]
    public void FindViolations_UseOfALowerFolderOrOnlyTheSameWord_IsNone(string source) =>
        Violations.None(FolderLadder.FindViolations(SourceCompilation.Compile(
        [
            Source("Log/Frames", "Walker", source),
            Source("Memory", "Region", "namespace MappedFileQueues.Memory; internal class Region { }"),
            Source("Inspection", "Reader", "namespace MappedFileQueues.Inspection; internal class Reader { }"),
        ])));

    [Fact]
    public void FindViolations_FilesUseTheLog_IsFound() =>
        Assert.NotEmpty(FolderLadder.FindViolations(SourceCompilation.Compile(
        [
            Source("Files/Names", "Names", "namespace MappedFileQueues.Files.Names; class Names { Log.Frames.Walker? _walker; }"),
            Source("Log/Frames", "Walker", "namespace MappedFileQueues.Log.Frames; internal class Walker { }"),
        ])));

    [Fact]
    public void FindMisplacedFiles_WrongNamespaceOrFolder_IsFound() =>
        Assert.Equal(2, FolderLadder.FindMisplacedFiles(SourceCompilation.Compile(
        [
            Source("Memory", "Region", "namespace MappedFileQueues.Log.Frames; internal class Region { }"),
            Source("Inspection", "Inspector", "namespace MappedFileQueues; public class Inspector { }"),
            Source("Helpers", "Thing", "namespace MappedFileQueues.Helpers; internal class Thing { }"),
        ])).Count);

    private static (string Path, string Text) Source(string folder, string name, string text) =>
        ($"{SourceCompilation.CoreFolder}{folder}/{name}.cs", text);
}

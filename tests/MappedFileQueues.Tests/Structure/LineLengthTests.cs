namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// No line is wider than an editor beside another one. Files and functions are as long as their one idea: nothing counts their
/// lines.
/// </summary>
public sealed class LineLengthTests
{
    private const int LineLengthMax = 130;

    private static readonly string[] s_folders = ["src", "tests", "bench", "samples", "interop"];
    private static readonly string[] s_patterns = ["*.cs", "*.c", "*.h", "*.py", "*.pml"];

    [Fact]
    public void SourceFiles_All_HaveLinesOfAtMost130Characters() =>
        Violations.None(
            from folder in s_folders
            from pattern in s_patterns
            from path in Repository.SourceFiles(folder, pattern)
            where !path.EndsWith(".g.cs", StringComparison.Ordinal) // A generator wrote it.
            from line in File.ReadLines(path).Index()
            where line.Item.Length > LineLengthMax
            select $"{Repository.RelativePath(path)}({line.Index + 1}): {line.Item.Length} characters");
}

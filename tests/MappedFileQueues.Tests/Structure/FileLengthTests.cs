using System.Globalization;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Limits that keep each file and function readable in one go. A function is counted from its first line, attributes left out,
/// to its last; what a lambda or a local function holds counts for the function around it too. Statements at the top of a file
/// are a function.
/// </summary>
public sealed class FileLengthTests
{
    private const int FileLinesMax = 400;
    private const int FunctionLinesMax = 69;
    private const int LineLengthMax = 130;

    private static readonly string[] s_folders = ["src", "tests", "bench", "samples", "interop"];
    private static readonly string[] s_patterns = ["*.cs", "*.c", "*.h", "*.py", "*.pml"];

    [Fact]
    public void SourceFiles_All_HaveAtMost400Lines() =>
        Violations.None(
            from path in AllSources()
            let count = File.ReadLines(path).Count()
            where count > FileLinesMax
            select $"{Repository.RelativePath(path)}: {count} lines");

    [Fact]
    public void SourceFiles_All_HaveLinesOfAtMost130Characters() =>
        Violations.None(
            from path in AllSources()
            from line in File.ReadLines(path).Index()
            where line.Item.Length > LineLengthMax
            select $"{Repository.RelativePath(path)}({line.Index + 1}): {line.Item.Length} characters");

    [Fact]
    public void Functions_All_HaveFewerThan70Lines() =>
        Violations.None(
            from path in AllSources()
            where path.EndsWith(".cs", StringComparison.Ordinal)
            from violation in LongFunctions(SourceCompilation.Parse(Repository.RelativePath(path), File.ReadAllText(path)))
            select violation);

    [Theory]
    [InlineData("class C {{ void M() {{\n{0}}} }}", 1)]
    [InlineData("class C {{ int P {{ get {{\n{0} return 1; }} }} }}", 1)]
    [InlineData("class C {{ [Obsolete]\n\n\n void M() {{ \n{0}}} }}", 1)]
    [InlineData("class C {{ Action M = () => {{\n{0}}}; }}", 1)]
    [InlineData("M();\n{0} M();", 1)]
    [InlineData("class C {{ void M() {{ }}\n{0} void N() {{ }} }}", 0)]
    public void LongFunctions_BodyOf70Lines_IsFound(string format, int expected)
    {
        string text = string.Format(CultureInfo.InvariantCulture, format, string.Concat(Enumerable.Repeat(";\n", 69)));

        Assert.Equal(expected, LongFunctions(SourceCompilation.Parse("C.cs", text)).Count());
    }

    private static IEnumerable<string> AllSources() =>
        from folder in s_folders from pattern in s_patterns from path in Repository.SourceFiles(folder, pattern) select path;

    private static IEnumerable<string> LongFunctions(SyntaxTree tree)
    {
        SyntaxNode root = tree.GetRoot();
        foreach (SyntaxNode node in root.DescendantNodes())
        {
            if (node is not (BaseMethodDeclarationSyntax or AccessorDeclarationSyntax or AnonymousFunctionExpressionSyntax
                or LocalFunctionStatementSyntax or PropertyDeclarationSyntax { ExpressionBody: not null }))
            {
                continue;
            }

            int count = LastLine(node) - FirstLine(node) + 1;
            if (count > FunctionLinesMax)
                yield return $"{SourceCompilation.Place(node)}: a function of {count} lines";
        }

        GlobalStatementSyntax[] program =
        [
            .. root.ChildNodes().OfType<GlobalStatementSyntax>()
                .Where(node => node.Statement is not LocalFunctionStatementSyntax),
        ];
        int programLines = program.Length == 0 ? 0 : LastLine(program[^1]) - FirstLine(program[0]) + 1;
        if (programLines > FunctionLinesMax)
            yield return $"{tree.FilePath}: {programLines} lines at the top of the file";
    }

    /// <summary>The line of the first word behind the attributes.</summary>
    private static int FirstLine(SyntaxNode node)
    {
        SyntaxNodeOrToken first = node.ChildNodesAndTokens().First(child => !child.IsKind(SyntaxKind.AttributeList));
        SyntaxToken word = first.IsToken ? first.AsToken() : first.AsNode()!.GetFirstToken();
        return word.GetLocation().GetLineSpan().StartLinePosition.Line;
    }

    private static int LastLine(SyntaxNode node) => node.GetLocation().GetLineSpan().EndLinePosition.Line;
}

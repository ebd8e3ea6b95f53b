using System.Globalization;
using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// One comment that says which ordering an access has and with what it pairs: <c>// P3 release: …; pairs with P3 acquire in
/// LogReader.TryRead.</c> It continues over the comment lines that follow.
/// </summary>
internal sealed partial record MemoryOrderTag(
    int Id, string Kind, string Text, string Path, int FirstLine, int LastLine, string[] Types, string Member)
{
    /// <summary>`path(line)`, for messages.</summary>
    public string Place => $"{Path}({FirstLine})";

    /// <summary>The ids that this one pairs with.</summary>
    public IEnumerable<int> PairIds => IdPattern().Matches(PairText).Select(match => IdOf(match.Groups[1].Value));

    /// <summary>The names behind "in" and "and": a type, a type and its member, or a member of the same type.</summary>
    public IEnumerable<(string First, string Member)> PairPlaces =>
        PairPlacePattern().Matches(PairText).Select(match => (match.Groups[1].Value, match.Groups[2].Value));

    /// <summary>From "pairs with" to the end of that sentence.</summary>
    private string PairText => PairPattern().Match(Text).Value;

    /// <summary>Every tag in a file, in order.</summary>
    public static IEnumerable<MemoryOrderTag> FindAll(SyntaxTree tree)
    {
        SyntaxNode root = tree.GetRoot();
        (SyntaxTrivia Trivia, int Line, string Text)[] comments =
        [
            .. from trivia in root.DescendantTrivia()
               where trivia.IsKind(SyntaxKind.SingleLineCommentTrivia)
               select (trivia, trivia.GetLocation().GetLineSpan().StartLinePosition.Line + 1, trivia.ToString()[2..].Trim()),
        ];
        for (int index = 0; index < comments.Length; index++)
        {
            if (TagPattern().Match(comments[index].Text) is not { Success: true } match)
                continue;
            int last = index;
            while (last + 1 < comments.Length && comments[last + 1].Line == comments[last].Line + 1
                && !TagPattern().IsMatch(comments[last + 1].Text))
            {
                last++;
            }

            yield return new MemoryOrderTag(
                IdOf(match.Groups[1].Value),
                match.Groups[2].Value,
                string.Join(' ', comments[index..(last + 1)].Select(comment => comment.Text)),
                tree.FilePath,
                comments[index].Line,
                comments[last].Line,
                TypesAround(comments[index].Trivia),
                MemberAround(comments[index].Trivia));
        }
    }

    private static int IdOf(string digits) => int.Parse(digits, CultureInfo.InvariantCulture);

    private static string[] TypesAround(SyntaxTrivia trivia) =>
    [
        .. trivia.Token.Parent!.AncestorsAndSelf().OfType<BaseTypeDeclarationSyntax>().Select(type => type.Identifier.ValueText),
    ];

    /// <summary>The member of the innermost type that holds it; a constructor is called like its type.</summary>
    private static string MemberAround(SyntaxTrivia trivia) =>
        trivia.Token.Parent!.AncestorsAndSelf().OfType<MemberDeclarationSyntax>().FirstOrDefault() switch
        {
            MethodDeclarationSyntax method => method.Identifier.ValueText,
            PropertyDeclarationSyntax property => property.Identifier.ValueText,
            BaseTypeDeclarationSyntax type => type.Identifier.ValueText,
            ConstructorDeclarationSyntax constructor => constructor.Identifier.ValueText,
            FieldDeclarationSyntax field => field.Declaration.Variables[0].Identifier.ValueText,
            _ => "",
        };

    [GeneratedRegex(@"^P(\d+) (acquire|release|full|relaxed):")]
    private static partial Regex TagPattern();

    [GeneratedRegex(@"\bpairs with\b.*?(\.\s|\.$|$)")]
    private static partial Regex PairPattern();

    [GeneratedRegex(@"\bP(\d+)\b")]
    private static partial Regex IdPattern();

    [GeneratedRegex(@"\b(?:in|and) (?!P\d)([A-Z]\w*)(?:\.([A-Z]\w*))?")]
    private static partial Regex PairPlacePattern();
}

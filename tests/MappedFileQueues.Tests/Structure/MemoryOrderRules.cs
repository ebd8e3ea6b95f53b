using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Checks the tags of the ordered accesses against each other, and against the page that says what each orders. The rules: see
/// the tests.
/// </summary>
internal sealed partial class MemoryOrderRules(CSharpCompilation compilation, string page)
{
    /// <summary>How many lines above an access its comment may end.</summary>
    private const int LinesAboveMax = 3;

    private const string AccessType = "SharedWord";

    private static readonly string[] s_orderedAccesses =
        ["ReadAcquire", "WriteRelease", "CompareExchange", "CompareExchangeValue", "Exchange", "Add", "RaiseTo", "SetBits"];

    private static readonly string[] s_foldersOfFrameworkRule =
        [SourceCompilation.CoreFolder + "Log/", SourceCompilation.CoreFolder + "Segments/"];

    private readonly MemoryOrderTag[] _tags = [.. compilation.SyntaxTrees.SelectMany(MemoryOrderTag.FindAll)];

    /// <summary>The ids that the page names, row by row.</summary>
    private readonly int[] _known =
    [
        .. from row in RowPattern().Matches(page)
           from id in IdPattern().Matches(row.Groups[1].Value)
           select int.Parse(id.Groups[1].Value, CultureInfo.InvariantCulture),
    ];

    /// <summary>Rule 1: ordered accesses without a tag that fits them.</summary>
    public IEnumerable<string> FindUntaggedAccesses() =>
        from tree in compilation.SyntaxTrees
        let model = compilation.GetSemanticModel(tree)
        from node in tree.GetRoot().DescendantNodes().OfType<InvocationExpressionSyntax>()
        let method = model.GetSymbolInfo(node).Symbol as IMethodSymbol
        where method is not null && IsOrderedAccess(method, tree.FilePath)
        let line = LineOfName(node)
        where !_tags.Any(tag => tag.Path == tree.FilePath && Fits(tag.Kind, method.Name)
            && tag.FirstLine <= line && tag.LastLine >= line - LinesAboveMax)
        select $"{tree.FilePath}({line}): {method.ContainingType.Name}.{method.Name} without a comment `// P<number> <order>: …`";

    /// <summary>Rules 2 and 3: tags that do not say what they pair with, or whose other side is not there.</summary>
    public IEnumerable<string> FindBrokenPairs()
    {
        foreach (MemoryOrderTag tag in _tags.Where(tag => tag.Kind != "relaxed"))
        {
            if (!tag.PairIds.Any())
            {
                yield return $"{tag.Place}: P{tag.Id} does not say `pairs with P<number> … in Type.Member`";
                continue;
            }

            foreach (int id in tag.PairIds.Where(id => !_tags.Any(other => other.Id == id && IsOtherSide(tag.Kind, other.Kind))))
                yield return $"{tag.Place}: P{tag.Id} {tag.Kind} pairs with P{id}, of which the code has no other side";

            foreach ((string first, string member) in tag.PairPlaces.Where(place => !IsPairPlace(tag, place.First, place.Member)))
            {
                string place = member.Length == 0 ? first : $"{first}.{member}";
                yield return $"{tag.Place}: {place} is not there, or has no P{string.Join(" or P", tag.PairIds)}";
            }
        }
    }

    /// <summary>Rule 4: ids that only the code or only the page has, or that the page has twice.</summary>
    public IEnumerable<string> FindUnknownIds()
    {
        foreach (MemoryOrderTag tag in _tags.Where(tag => !_known.Contains(tag.Id)))
            yield return $"{tag.Place}: the page does not say what P{tag.Id} orders";
        foreach (int id in _known.Where(id => !_tags.Any(tag => tag.Id == id)))
            yield return $"P{id} is in the page, and no code has it";
        foreach (IGrouping<int, int> twice in _known.GroupBy(id => id).Where(rows => rows.Count() > 1))
            yield return $"P{twice.Key} is in the page twice";
    }

    /// <summary>All tagged places as a table, by id: the stores first, then the loads.</summary>
    public string Table()
    {
        StringBuilder table = new("| pair | order | place | comment |\n|---|---|---|---|\n");
        foreach (MemoryOrderTag tag in _tags.OrderBy(tag => tag.Id).ThenBy(tag => tag.Kind == "acquire").ThenBy(tag => tag.Path))
        {
            string comment = tag.Text[(tag.Text.IndexOf(':', StringComparison.Ordinal) + 1)..].Trim();
            table.Append(CultureInfo.InvariantCulture, $"| P{tag.Id} | {tag.Kind} | `{tag.Types[0]}.{tag.Member}` ")
                .Append(CultureInfo.InvariantCulture, $"| {comment.Replace("|", "\\|", StringComparison.Ordinal)} |\n");
        }

        return table.ToString();
    }

    private static bool IsOrderedAccess(IMethodSymbol method, string path)
    {
        string type = method.ContainingType.ToDisplayString();
        if (method.ContainingType.Name == AccessType)
            return s_orderedAccesses.Contains(method.Name) && Path.GetFileName(path) != $"{AccessType}.cs";
        return type is "System.Threading.Volatile" or "System.Threading.Interlocked"
            && s_foldersOfFrameworkRule.Any(folder => path.StartsWith(folder, StringComparison.Ordinal));
    }

    private static bool Fits(string kind, string method) => method switch
    {
        "ReadAcquire" or "Read" => kind is "acquire" or "relaxed",
        "WriteRelease" or "Write" => kind is "release" or "relaxed",
        _ => true,
    };

    private static bool IsOtherSide(string kind, string other) => kind switch
    {
        "acquire" => other is "release" or "full",
        "release" => other is "acquire" or "full",
        _ => other != "relaxed",
    };

    private static int LineOfName(InvocationExpressionSyntax node) =>
        SourceCompilation.Line(node.Expression is MemberAccessExpressionSyntax access ? access.Name : node.Expression);

    /// <summary>
    /// Whether a name in a comment is a type or a member of one, or a member of the type around, that has such a tag.
    /// </summary>
    private bool IsPairPlace(MemoryOrderTag tag, string first, string member) =>
        member.Length == 0
            ? tag.PairIds.Any(id => HasTag(id, first) || tag.Types.Any(type => HasTag(id, type, first)))
            : tag.PairIds.Any(id => HasTag(id, first, member));

    private bool HasTag(int id, string type) => _tags.Any(tag => tag.Id == id && tag.Types.Contains(type));

    private bool HasTag(int id, string type, string member) => _tags.Any(tag => tag.Id == id && IsIn(tag, type, member));

    private static bool IsIn(MemoryOrderTag tag, string type, string member) =>
        tag.Types.Contains(type) && tag.Member == member;

    [GeneratedRegex(@"^-((?: P\d+,?)+):", RegexOptions.Multiline)]
    private static partial Regex RowPattern();

    [GeneratedRegex(@"P(\d+)")]
    private static partial Regex IdPattern();
}

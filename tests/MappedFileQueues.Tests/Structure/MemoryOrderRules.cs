using System.Globalization;
using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Checks the tags of the ordered accesses against each other and against the table of pairs. The rules: see the tests.
/// </summary>
internal sealed partial class MemoryOrderRules(CSharpCompilation compilation, string table)
{
    /// <summary>How many lines above an access its comment may end.</summary>
    private const int LinesAboveMax = 3;

    private const string AccessType = "SharedWord";

    private static readonly string[] s_orderedAccesses =
        ["ReadAcquire", "WriteRelease", "CompareExchange", "CompareExchangeValue", "Exchange", "Add", "RaiseTo", "SetBits"];

    private static readonly string[] s_foldersOfFrameworkRule =
        [SourceCompilation.CoreFolder + "Log/", SourceCompilation.CoreFolder + "Segments/"];

    private readonly MemoryOrderTag[] _tags = [.. compilation.SyntaxTrees.SelectMany(MemoryOrderTag.FindAll)];

    private readonly (int Id, string Line, string[] Cells)[] _rows =
    [
        .. from line in table.Split('\n')
           let match = RowPattern().Match(line)
           where match.Success
           select (int.Parse(match.Groups[1].Value, CultureInfo.InvariantCulture), line.Trim(),
               line.Trim().Trim('|').Split('|').Skip(1).Select(cell => cell.Trim()).ToArray()),
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

    /// <summary>Rule 4: ids that only the code or only the table has, and rows that name a place that has no such tag.</summary>
    public IEnumerable<string> FindTableErrors()
    {
        foreach (MemoryOrderTag tag in _tags.Where(tag => !_rows.Any(row => row.Id == tag.Id)))
            yield return $"{tag.Place}: P{tag.Id} is not in the table";

        foreach ((int id, string line, string[] cells) in _rows)
        {
            if (!_tags.Any(tag => tag.Id == id))
                yield return $"P{id} is in the table, and no code has it";
            if (cells.Length < 3 || cells.Any(cell => cell.Length == 0))
                yield return $"P{id}: a row has four cells, none empty: {line}";

            (string Type, string Member)[] places = [.. cells.Take(2).SelectMany(MemoryOrderTag.PlacesIn)];
            if (places.Length == 0)
                yield return $"P{id}: the row names no Type.Member: {line}";
            foreach ((string type, string member) in places)
            {
                if (!HasTagOfPair(id, type, member))
                    yield return $"P{id}: {type}.{member} is not there, or has no P{id} (it is in {PlacesOf(id)})";
            }
        }
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

    /// <summary>Whether the member has a tag of the id, or of one that pairs with it.</summary>
    private bool HasTagOfPair(int id, string type, string member) =>
        HasTag(id, type, member)
        || _tags.Any(tag => (tag.Id == id && tag.PairIds.Any(pair => HasTag(pair, type, member)))
            || (tag.PairIds.Contains(id) && IsIn(tag, type, member)));

    private bool HasTag(int id, string type) => _tags.Any(tag => tag.Id == id && tag.Types.Contains(type));

    private bool HasTag(int id, string type, string member) => _tags.Any(tag => tag.Id == id && IsIn(tag, type, member));

    private static bool IsIn(MemoryOrderTag tag, string type, string member) =>
        tag.Types.Contains(type) && tag.Member == member;

    private string PlacesOf(int id) =>
        string.Join(", ", _tags.Where(tag => tag.Id == id).Select(tag => $"{tag.Types[0]}.{tag.Member}").Distinct());

    [GeneratedRegex(@"^\s*\|\s*P(\d+)\s*\|")]
    private static partial Regex RowPattern();
}

using System.Xml.Linq;
using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Tests.Structure.Api;

/// <summary>The comments of members, with what they inherit from others.</summary>
/// <param name="compilation">Where members are looked up.</param>
/// <param name="files">The files that the compiler wrote the comments into.</param>
internal sealed class ApiComments(Compilation compilation, IEnumerable<string> files)
{
    private const int DepthMax = 5;

    private readonly Dictionary<string, XElement> _comments = files
        .SelectMany(file => XDocument.Load(file, LoadOptions.PreserveWhitespace).Descendants("member"))
        .DistinctBy(member => member.Attribute("name")!.Value)
        .ToDictionary(member => member.Attribute("name")!.Value);

    /// <summary>
    /// The elements of a member's comment: its own, then those of the member that it inherits from, where its own say nothing.
    /// </summary>
    public IReadOnlyList<XElement> Of(ISymbol symbol, int depth = 0)
    {
        if (!_comments.TryGetValue(symbol.OriginalDefinition.GetDocumentationCommentId()!, out XElement? comment))
            return [];
        List<XElement> elements = [.. comment.Elements().Where(element => element.Name != "inheritdoc")];
        if (comment.Element("inheritdoc") is not { } inherit)
            return elements;
        ISymbol? from = inherit.Attribute("cref") is { } cref
            ? DocumentationCommentId.GetFirstSymbolForDeclarationId(cref.Value, compilation)
            : BaseOf(symbol);
        if (from is null || depth == DepthMax)
            throw new InvalidOperationException($"{symbol} inherits its documentation from nowhere.");
        HashSet<string> own = [.. elements.Select(KeyOf)];
        HashSet<string> names = [.. NamesOf(symbol)];
        elements.AddRange(Of(from, depth + 1).Where(element => !own.Contains(KeyOf(element))
            && (element.Attribute("name") is not { } name || names.Contains(name.Value))));
        return elements;
    }

    private static string KeyOf(XElement element) =>
        $"{element.Name} {element.Attribute("name")?.Value}{element.Attribute("cref")?.Value}";

    /// <summary>What a member calls its parameters; the one that it inherits from may have others.</summary>
    private static IEnumerable<string> NamesOf(ISymbol symbol) => symbol switch
    {
        IMethodSymbol method => method.Parameters.Select(parameter => parameter.Name)
            .Concat(method.TypeParameters.Select(parameter => parameter.Name)),
        INamedTypeSymbol type => type.TypeParameters.Select(parameter => parameter.Name),
        _ => [],
    };

    private static ISymbol? BaseOf(ISymbol symbol) => symbol switch
    {
        INamedTypeSymbol type => type.Interfaces.FirstOrDefault() ?? type.BaseType,
        IMethodSymbol { OverriddenMethod: { } method } => method,
        IPropertySymbol { OverriddenProperty: { } property } => property,
        _ => symbol.ContainingType.AllInterfaces
            .SelectMany(face => face.GetMembers(symbol.Name))
            .FirstOrDefault(member => SymbolEqualityComparer.Default.Equals(
                symbol.ContainingType.FindImplementationForInterfaceMember(member), symbol)),
    };
}

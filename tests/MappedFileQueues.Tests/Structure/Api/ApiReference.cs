using System.Text;
using System.Xml.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.Structure.Api;

/// <summary>The pages of the API: a page a namespace, made of what the assemblies show and of the comments beside them.</summary>
internal static class ApiReference
{
    /// <summary>Lists of the pages' names and texts.</summary>
    public static IReadOnlyDictionary<string, string> Make()
    {
        MetadataReference[] own =
            [.. PublicSurface.Packages.Select(package => MetadataReference.CreateFromFile(PublicSurface.PathOf(package)))];
        CSharpCompilation compilation = PublicSurface.CompilationWith(own);
        ApiComments comments = new(
            compilation, PublicSurface.Packages.Select(package => Path.ChangeExtension(PublicSurface.PathOf(package), ".xml")));
        return own
            .SelectMany(reference => PublicSurface.TypesOf(
                ((IAssemblySymbol)compilation.GetAssemblyOrModuleSymbol(reference)!).GlobalNamespace))
            .GroupBy(type => type.ContainingNamespace.ToDisplayString())
            .ToDictionary(group => $"{group.Key}.md", group => PageOf(group.Key, group, comments));
    }

    private static string PageOf(string name, IEnumerable<INamedTypeSymbol> types, ApiComments comments)
    {
        INamedTypeSymbol[] sorted =
            [.. types.OrderBy(type => type.ToDisplayString(PublicSurface.TypeFormat), StringComparer.Ordinal)];
        string assemblies = string.Join(", ", sorted.Select(type => $"`{type.ContainingAssembly.Name}`").Distinct());
        StringBuilder page = new($"# {name}\n\nMade of the comments in the sources. Package: {assemblies}.\n\n");
        foreach (INamedTypeSymbol type in sorted)
            Write(page, type, comments);
        return page.ToString().TrimEnd('\n') + "\n";
    }

    private static void Write(StringBuilder page, INamedTypeSymbol type, ApiComments comments)
    {
        string name = type.ToDisplayString(SymbolDisplayFormat.MinimallyQualifiedFormat);
        page.Append($"## {name.Replace("<", "&lt;", StringComparison.Ordinal)}\n\n");
        page.Append($"```text\n{ApiText.Wrap(PublicSurface.HeadOf(type), "    ")}\n```\n\n");
        WriteComment(page, comments.Of(type));
        if (type.TypeKind == TypeKind.Enum)
        {
            WriteValues(page, type, comments);
            return;
        }

        foreach (ISymbol member in PublicSurface.MembersOf(type))
        {
            page.Append($"```text\n{ApiText.Wrap(PublicSurface.LineOf(member), "    ")}\n```\n\n");
            WriteComment(page, comments.Of(member));
        }
    }

    private static void WriteValues(StringBuilder page, INamedTypeSymbol type, ApiComments comments)
    {
        foreach (IFieldSymbol value in type.GetMembers().OfType<IFieldSymbol>().OrderBy(value => value.ConstantValue))
        {
            string text = comments.Of(value).Where(element => element.Name == "summary").Select(ApiText.LineOf).Single();
            page.Append(ApiText.Wrap($"- `{value.Name}` = {value.ConstantValue}: {text}", "  ")).Append('\n');
        }

        page.Append('\n');
    }

    private static void WriteComment(StringBuilder page, IReadOnlyList<XElement> elements)
    {
        foreach (XElement element in elements.Where(element => element.Name.LocalName is "summary" or "remarks"))
            page.Append(ApiText.Of(element));
        StringBuilder list = new();
        foreach (XElement element in elements)
        {
            string? start = element.Name.LocalName switch
            {
                "typeparam" or "param" => $"`{element.Attribute("name")!.Value}`: ",
                "returns" => "Returns: ",
                "exception" => $"`{element.Attribute("cref")!.Value.Split('.')[^1]}`: ",
                _ => null,
            };
            if (start is not null)
                list.Append(ApiText.Wrap($"- {start}{ApiText.LineOf(element)}", "  ")).Append('\n');
        }

        if (list.Length > 0)
            page.Append(list).Append('\n');
    }
}

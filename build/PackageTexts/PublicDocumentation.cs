using System.Xml.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.PackageTexts;

/// <summary>
/// The compiler documents what is internal too, which nobody who has the package can see. This keeps what is public, and refuses
/// references from there to what is not.
/// </summary>
internal static class PublicDocumentation
{
    /// <summary>Writes the public part of a documentation file; gives the exit code.</summary>
    public static int Write(string assembly, string source, string target, string repositoryUrl)
    {
        (HashSet<string> all, HashSet<string> seen) = Members(assembly);
        XDocument document = XDocument.Load(source, LoadOptions.PreserveWhitespace);
        List<XElement> members = [.. document.Root!.Element("members")!.Elements("member")];
        foreach (XElement member in members.Where(member => !seen.Contains((string)member.Attribute("name")!)))
        {
            (member.PreviousNode as XText)?.Remove();
            member.Remove();
        }

        List<string> hidden =
        [
            .. from member in document.Root.Element("members")!.Elements("member")
               from reference in member.Descendants().Attributes("cref")
               where all.Contains(reference.Value) && !seen.Contains(reference.Value)
               select $"{source}: {(string)member.Attribute("name")!} refers to {reference.Value}, which users do not see.",
        ];
        hidden.ForEach(Console.Error.WriteLine);
        foreach (XElement member in document.Root.Element("members")!.Elements("member"))
            Links.MakeAbsolute(member, repositoryUrl);
        document.Save(target, SaveOptions.DisableFormatting);
        return hidden.Count == 0 ? 0 : 1;
    }

    /// <summary>The names of all types and members of an assembly, and of those that users can see.</summary>
    private static (HashSet<string> All, HashSet<string> Seen) Members(string path)
    {
        MetadataReference assembly = MetadataReference.CreateFromFile(path);
        string runtime = Path.GetDirectoryName(typeof(object).Assembly.Location)!;
        CSharpCompilation compilation = CSharpCompilation.Create(
            "Documentation",
            references:
            [
                assembly, .. Directory.GetFiles(runtime, "System*.dll").Select(file => MetadataReference.CreateFromFile(file)),
            ],
            options: new CSharpCompilationOptions(
                OutputKind.DynamicallyLinkedLibrary, metadataImportOptions: MetadataImportOptions.All));
        HashSet<string> all = [];
        HashSet<string> seen = [];
        Visit((INamespaceOrTypeSymbol)((IAssemblySymbol)compilation.GetAssemblyOrModuleSymbol(assembly)!).GlobalNamespace, true);
        return (all, seen);

        void Visit(INamespaceOrTypeSymbol owner, bool isSeen)
        {
            foreach (ISymbol member in owner.GetMembers())
            {
                bool isMemberSeen = isSeen && (member is INamespaceSymbol || member.DeclaredAccessibility
                    is Accessibility.Public or Accessibility.Protected or Accessibility.ProtectedOrInternal);
                if (member.GetDocumentationCommentId() is { } name)
                {
                    all.Add(name);
                    if (isMemberSeen)
                        seen.Add(name);
                }

                if (member is INamespaceOrTypeSymbol nested)
                    Visit(nested, isMemberSeen);
            }
        }
    }
}

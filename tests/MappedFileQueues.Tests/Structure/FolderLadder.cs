using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// The rules of the folder ladder: a file may use its own folder and those below it, nothing beside or above. A use is a name
/// that the compiler binds to a type of the core or to a member of one, a <c>using</c> of the core's namespaces, and what
/// <c>new()</c> makes. Comments and their references do not count.
/// </summary>
internal static class FolderLadder
{
    /// <summary>What users import.</summary>
    private const string PublicNamespace = "MappedFileQueues";

    /// <summary>The folders from the lowest to the highest.</summary>
    private static readonly string[] s_rungs =
    [
        "Errors", "Threads",
        "Platform", "Platform/Linux/Calls", "Platform/Linux", "Platform/Portable", "Platform/Choice",
        "Memory", "Format", "Format/Headers", "Format/Index", "Format/Groups", "Queues/Options", "Segments",
        "Log/StoreFiles", "Log/GroupFiles", "Log/Waiting", "Log/Store", "Log/Frames", "Log/Sequences", "Log/Index",
        "Log/Opening", "Log/Flushing", "Log/Retention", "Log/Appending", "Log/Reading", "Log/Groups", "Log/Snapshots",
        "Queues/Serializers", "Inspection", "Engine", "Queues/Groups", "Queues",
    ];

    /// <summary>
    /// Folders that stand beside the ladder, each with those of its kind that it may use, and all rungs up to <see
    /// cref="HighestBeside"/>.
    /// </summary>
    private static readonly Dictionary<string, string[]> s_besideLadder = new()
    {
        ["Files/Names"] = [],
        ["Files/Rolling"] = [],
        ["Files/Appending"] = ["Files/Names", "Files/Rolling"],
        ["Files/Reading/Blocks"] = ["Files/Names"],
        ["Files/Reading"] = ["Files/Names", "Files/Reading/Blocks"],
        ["Packs/Format"] = [],
        ["Packs/Volumes"] = ["Packs/Format"],
        ["Packs/Index"] = ["Packs/Format", "Packs/Volumes"],
        ["Packs/Loading"] = ["Packs/Format", "Packs/Volumes", "Packs/Index"],
        ["Packs/Reading"] = ["Packs/Format", "Packs/Volumes", "Packs/Index", "Packs/Loading"],
        ["Packs/Writing"] = ["Packs/Format", "Packs/Volumes", "Packs/Index", "Packs/Loading", "Packs/Reading"],
    };

    private const string HighestBeside = "Memory";

    /// <summary>The folders whose public types have a namespace of their own.</summary>
    private static readonly string[] s_ownNamespaces = ["Files", "Packs"];

    /// <summary>The folders whose types are mostly public, and therefore in the namespace that users import.</summary>
    private static readonly string[] s_publicFolders = ["Errors", "Queues/Serializers", "Queues/Groups", "Queues"];

    /// <summary>Every use that goes up or sideways, each as `path(line): what`.</summary>
    public static IReadOnlyList<string> FindViolations(CSharpCompilation compilation)
    {
        List<string> violations = [];
        foreach (SyntaxTree tree in CoreTrees(compilation))
        {
            string folder = FolderOf(tree.FilePath);
            SemanticModel model = compilation.GetSemanticModel(tree);
            foreach (SyntaxNode node in tree.GetRoot().DescendantNodes())
            {
                if (UsedFolder(model, node) is { } used && !MayUse(folder, used))
                    violations.Add($"{SourceCompilation.Place(node)}: {folder} uses {node} of {used}");
            }
        }

        return violations;
    }

    /// <summary>Files outside the known folders, and files whose namespace does not belong to their folder.</summary>
    public static IReadOnlyList<string> FindMisplacedFiles(CSharpCompilation compilation)
    {
        List<string> misplaced = [];
        foreach (SyntaxTree tree in CoreTrees(compilation))
        {
            string folder = FolderOf(tree.FilePath);
            if (!s_rungs.Contains(folder) && !s_besideLadder.ContainsKey(folder))
                misplaced.Add($"{tree.FilePath}: the ladder has no folder {folder}");

            string expected = NamespaceOf(folder);
            misplaced.AddRange(
                from declaration in tree.GetRoot().DescendantNodes().OfType<BaseNamespaceDeclarationSyntax>()
                let name = declaration.Name.ToString()
                where name != expected && !(name == PublicNamespaceOf(folder) && IsPublic(declaration))
                select $"{SourceCompilation.Place(declaration)}: namespace {declaration.Name} instead of {expected}");
        }

        return misplaced;
    }

    private static IEnumerable<SyntaxTree> CoreTrees(CSharpCompilation compilation) =>
        compilation.SyntaxTrees.Where(tree => IsOfCore(tree.FilePath));

    private static bool IsOfCore(string path) =>
        SourceCompilation.Folders.Any(folder => path.StartsWith(folder, StringComparison.Ordinal));

    /// <summary>Within the core, or with the name of the package before it: `Log/Reading`, `Files/Reading`.</summary>
    private static string FolderOf(string path) => Path.GetDirectoryName(path[SourceCompilation.CoreFolder.Length..])!;

    private static string NamespaceOf(string folder) =>
        s_publicFolders.Contains(folder) ? PublicNamespace : $"{PublicNamespace}.{folder.Replace('/', '.')}";

    private static string PublicNamespaceOf(string folder) =>
        folder.Split('/')[0] is var first && s_ownNamespaces.Contains(first) ? $"{PublicNamespace}.{first}" : PublicNamespace;

    private static bool IsPublic(BaseNamespaceDeclarationSyntax declaration) =>
        declaration.Members.OfType<BaseTypeDeclarationSyntax>().Any(type => type.Modifiers.Any(SyntaxKind.PublicKeyword));

    private static bool MayUse(string folder, string used)
    {
        if (folder == used)
            return true;
        bool isBeside = s_besideLadder.TryGetValue(folder, out string[]? below);
        if (isBeside && below!.Contains(used))
            return true;
        int highest = Array.IndexOf(s_rungs, isBeside ? HighestBeside : folder) - (isBeside ? 0 : 1);
        int rung = Array.IndexOf(s_rungs, used);
        return rung >= 0 && rung <= highest;
    }

    private static string? UsedFolder(SemanticModel model, SyntaxNode node)
    {
        switch (node)
        {
            case UsingDirectiveSyntax directive:
                string name = directive.NamespaceOrType.ToString();
                return s_rungs.Concat(s_besideLadder.Keys).FirstOrDefault(folder =>
                    !s_publicFolders.Contains(folder) && name == NamespaceOf(folder));
            case SimpleNameSyntax or BaseObjectCreationExpressionSyntax:
                return model.GetSymbolInfo(node).Symbol is { } symbol ? DeclaringFolder(symbol) : null;
            default:
                return null;
        }
    }

    /// <summary>The folder of the type that the symbol is or belongs to; null for what the core does not declare.</summary>
    private static string? DeclaringFolder(ISymbol symbol)
    {
        ISymbol? type = symbol is INamedTypeSymbol ? symbol : symbol.ContainingType;
        string? path = type?.DeclaringSyntaxReferences.Select(reference => reference.SyntaxTree.FilePath).FirstOrDefault();
        return path is not null && IsOfCore(path) ? FolderOf(path) : null;
    }
}

using System.Globalization;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Sources as the compiler reads them: the structural tests ask it which type a name means, instead of guessing from text. Paths
/// in it are relative to the root of the repository, with forward slashes.
/// </summary>
internal static class SourceCompilation
{
    /// <summary>Where the core's sources lie.</summary>
    public const string CoreFolder = "src/MappedFileQueues/";

    /// <summary>The core, and the packages that use its inside.</summary>
    public static IReadOnlyList<string> Folders { get; } =
        [CoreFolder, "src/MappedFileQueues.Files/", "src/MappedFileQueues.Packs/"];

    private const string ImplicitUsings =
        "global using System; global using System.Collections.Generic; global using System.IO; global using System.Linq; "
        + "global using System.Net.Http; global using System.Threading; global using System.Threading.Tasks;";

    /// <summary>
    /// A partial method whose body a source generator writes, and a variable that such a call would have set. Generators do not
    /// run here, and the declarations are all that is needed.
    /// </summary>
    private static readonly string[] s_errorsOfGeneratedBodies = ["CS8795", "CS0165"];

    /// <summary>The members of a generated serializer: it has no `Default`, no constructor and no overrides here.</summary>
    private static readonly string[] s_errorsOfGeneratedSerializers = ["CS0117", "CS7036", "CS0534"];

    private static readonly CSharpParseOptions s_parseOptions = new(
        LanguageVersion.Latest, DocumentationMode.Parse, SourceCodeKind.Regular, ["DEBUG", "TRACE", "NET", "NET10_0_OR_GREATER"]);

    private static readonly Lazy<CSharpCompilation> s_core = new(() => Compile(
        Folders.SelectMany(folder => Repository.SourceFiles(folder, "*.cs"))
            .Select(path => (Repository.RelativePath(path), File.ReadAllText(path)))));

    /// <summary>The core and the packages that use its inside, compiled together once for all tests.</summary>
    public static CSharpCompilation Core => s_core.Value;

    /// <summary>The assemblies of the runtime that the tests run on.</summary>
    public static IReadOnlyList<MetadataReference> RuntimeReferences { get; } =
    [
        .. Directory.EnumerateFiles(Path.GetDirectoryName(typeof(object).Assembly.Location)!, "*.dll")
            .Where(path => Path.GetFileName(path).StartsWith("System.", StringComparison.Ordinal)
                || Path.GetFileName(path) is "mscorlib.dll" or "netstandard.dll" or "Microsoft.Win32.Registry.dll")
            .Select(path => MetadataReference.CreateFromFile(path)),
    ];

    /// <summary>Parses one file.</summary>
    public static SyntaxTree Parse(string path, string text) => CSharpSyntaxTree.ParseText(text, s_parseOptions, path);

    /// <summary>
    /// Compiles sources that are given as (path, text). Fails on any error: a name that cannot be bound could hide what a test
    /// looks for.
    /// </summary>
    public static CSharpCompilation Compile(IEnumerable<(string Path, string Text)> sources)
    {
        CSharpCompilationOptions options = new(
            OutputKind.DynamicallyLinkedLibrary, allowUnsafe: true, nullableContextOptions: NullableContextOptions.Enable);
        CSharpCompilation compilation = CSharpCompilation.Create(
            "Structure",
            [Parse("ImplicitUsings.cs", ImplicitUsings), .. sources.Select(source => Parse(source.Path, source.Text))],
            RuntimeReferences,
            options);
        Diagnostic[] errors =
        [
            .. compilation.GetDiagnostics().Where(diagnostic =>
                diagnostic.Severity == DiagnosticSeverity.Error && !s_errorsOfGeneratedBodies.Contains(diagnostic.Id)
                && !(s_errorsOfGeneratedSerializers.Contains(diagnostic.Id)
                    && diagnostic.GetMessage(CultureInfo.InvariantCulture).Contains("Json", StringComparison.Ordinal))),
        ];
        Assert.True(errors.Length == 0, $"The structural tests cannot read the sources:\n{string.Join('\n', errors.Take(20))}");
        return compilation;
    }

    /// <summary>`path(line)` of a node, for messages.</summary>
    public static string Place(SyntaxNode node) => $"{node.SyntaxTree.FilePath}({Line(node)})";

    /// <summary>The line where a node starts, from 1.</summary>
    public static int Line(SyntaxNode node) => node.GetLocation().GetLineSpan().StartLinePosition.Line + 1;
}

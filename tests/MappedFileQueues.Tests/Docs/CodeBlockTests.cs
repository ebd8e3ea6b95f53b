using System.Collections.Concurrent;
using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Structure;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Diagnostics;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// The code of the README, of the guide and of the pages about a package, as a newcomer meets it: each block is pasted alone into
/// the `Program.cs` of a fresh project that has the packages. So is each sample.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class CodeBlockTests
{
    /// <summary>What `dotnet new console` and `dotnet new web` make, without a project file to write it in.</summary>
    private const string ConsoleUsings =
        "global using System; global using System.Collections.Generic; global using System.IO; global using System.Linq; "
        + "global using System.Net.Http; global using System.Threading; global using System.Threading.Tasks;";

    private const string WebUsings = ConsoleUsings
        + "global using System.Net.Http.Json; global using Microsoft.AspNetCore.Builder; "
        + "global using Microsoft.AspNetCore.Hosting; global using Microsoft.AspNetCore.Http; "
        + "global using Microsoft.AspNetCore.Routing; global using Microsoft.Extensions.Configuration; "
        + "global using Microsoft.Extensions.DependencyInjection; global using Microsoft.Extensions.Hosting; "
        + "global using Microsoft.Extensions.Logging;";

    private static readonly CSharpParseOptions s_parseOptions = new(LanguageVersion.Latest);

    /// <summary>The project of a program: what `dotnet new` makes, and the packages that the program names.</summary>
    private enum ProjectKind
    {
        /// <summary>The framework, our packages and SQLite, with nothing of Microsoft.Extensions.</summary>
        Console,

        /// <summary>The same with the package Microsoft.Extensions.Hosting and what it brings.</summary>
        Host,

        Web,
    }

    private static readonly string[] s_pages =
        ["docs/BRIDGE.md", "docs/FILES.md", "docs/HOSTING.md", "docs/PACKS.md", "README.md"];

    private static readonly ConcurrentDictionary<ProjectKind, MetadataReference[]> s_references = [];

    public static TheoryData<string> Pages =>
        [.. s_pages.Concat(Repository.SourceFiles("docs/guide", "*.md").Select(Repository.RelativePath).Where(HasBlocks))];

    /// <summary>Programs of one file; the demo is a project.</summary>
    public static TheoryData<string> Samples =>
        [.. Directory.EnumerateFiles(Repository.PathOf("samples"), "*.cs").Select(Repository.RelativePath)];

    /// <summary>
    /// Blocks were parts of samples once, and a newcomer who pasted one got errors: names that was in lines which the page did
    /// not show.
    /// </summary>
    [Theory]
    [MemberData(nameof(Pages))]
    public void Block_AloneInAFreshProject_Compiles(string page)
    {
        string[] blocks = [.. Blocks(page)];

        Assert.NotEmpty(blocks);
        Violations.None(
            from block in blocks
            from error in Errors(block)
            select $"{error}\n{block}");
    }

    [Theory]
    [MemberData(nameof(Samples))]
    public void Sample_InAFreshProjectWithThePackages_Compiles(string sample)
    {
        string text = File.ReadAllText(Repository.PathOf(sample));

        Assert.Empty(Errors(Directive().Replace(text, "")));
    }

    [Theory]
    [InlineData("Console.WriteLine(new MappedFileQueues.MappedFileQueueOptions());", 0)]
    [InlineData("Console.WriteLine(new MappedFileQueueOptions());", 1)]
    [InlineData("using (var queue = Open())\n{", 2)]
    [InlineData("Console.WriteLine(typeof(Microsoft.Extensions.Hosting.Host));", 0)]
    [InlineData("WebApplication.Create().Logger.Log(LogLevel.Warning, \"\");", 0)]
    public void Errors_Text_AreThoseOfTheCompiler(string text, int count) => Assert.Equal(count, Errors(text).Count);

    private static bool HasBlocks(string page) => Blocks(page).Any();

    private static IEnumerable<string> Blocks(string page) =>
        CSharpBlock().Matches(File.ReadAllText(Repository.PathOf(page))).Select(match => match.Groups[1].Value);

    private static ProjectKind KindOf(string program) =>
        program.Contains("WebApplication", StringComparison.Ordinal) ? ProjectKind.Web
        : program.Contains("Microsoft.Extensions.", StringComparison.Ordinal) ? ProjectKind.Host
        : ProjectKind.Console;

    private static List<Diagnostic> Errors(string program)
    {
        ProjectKind kind = KindOf(program);
        CSharpCompilation compilation = CSharpCompilation.Create(
            "Fresh",
            [
                CSharpSyntaxTree.ParseText(kind == ProjectKind.Web ? WebUsings : ConsoleUsings, s_parseOptions),
                CSharpSyntaxTree.ParseText(program, s_parseOptions),
            ],
            s_references.GetOrAdd(kind, References),
            new CSharpCompilationOptions(OutputKind.ConsoleApplication, nullableContextOptions: NullableContextOptions.Enable));
        Compilation whole = compilation;
        if (program.Contains("JsonSerializerContext", StringComparison.Ordinal))
            CSharpGeneratorDriver.Create(JsonGenerators(), parseOptions: s_parseOptions)
                .RunGeneratorsAndUpdateCompilation(compilation, out whole, out _);
        return [.. whole.GetDiagnostics().Where(diagnostic => diagnostic.Severity == DiagnosticSeverity.Error)];
    }

    /// <summary>The generator of the SDK that a fresh project is compiled with.</summary>
    private static IEnumerable<ISourceGenerator> JsonGenerators()
    {
        string path = Directory.GetFiles(Path.Combine(DotnetRoot, "packs", "Microsoft.NETCore.App.Ref"),
            "System.Text.Json.SourceGeneration.dll", SearchOption.AllDirectories).Max()!;
        return new AnalyzerFileReference(path, new Loader()).GetGenerators(LanguageNames.CSharp);
    }

    private static string DotnetRoot => Path.GetFullPath(Path.Combine(RuntimeFolder, "..", "..", ".."));

    private static string RuntimeFolder => Path.GetDirectoryName(typeof(object).Assembly.Location)!;

    private static string WebFolder =>
        Path.Combine(DotnetRoot, "shared", "Microsoft.AspNetCore.App", Path.GetFileName(RuntimeFolder));

    /// <summary>The runtime, our assemblies as they were built, SQLite's, and what the kind of project adds.</summary>
    private static MetadataReference[] References(ProjectKind kind)
    {
        IEnumerable<string> added = kind switch
        {
            ProjectKind.Host => Directory.GetFiles(AppContext.BaseDirectory, "Microsoft.Extensions.*.dll"),
            ProjectKind.Web => Directory.GetFiles(WebFolder, "Microsoft.*.dll"),
            _ => [],
        };
        IEnumerable<string> paths = Directory.GetFiles(RuntimeFolder, "System*.dll")
            .Concat(Directory.GetFiles(RuntimeFolder, "Microsoft.*.dll"))
            .Append(Path.Combine(RuntimeFolder, "netstandard.dll"))
            .Concat(Directory.GetFiles(AppContext.BaseDirectory, "MappedFileQueues*.dll")
                .Where(path => !Path.GetFileName(path).Contains("Tests", StringComparison.Ordinal)))
            .Concat(Directory.GetFiles(AppContext.BaseDirectory, "Microsoft.Data.Sqlite*.dll"))
            .Concat(added)
            .Where(IsManaged);
        return [.. paths.DistinctBy(Path.GetFileName).Select(path => MetadataReference.CreateFromFile(path))];
    }

    private static bool IsManaged(string path)
    {
        try
        {
            System.Reflection.AssemblyName.GetAssemblyName(path);
            return true;
        }
        catch (BadImageFormatException)
        {
            return false;
        }
    }

    [GeneratedRegex(@"^```(?:csharp|cs|c#)\s*\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex CSharpBlock();

    [GeneratedRegex("^#:.*$", RegexOptions.Multiline)]
    private static partial Regex Directive();

    private sealed class Loader : IAnalyzerAssemblyLoader
    {
        public void AddDependencyLocation(string fullPath)
        {
        }

        public System.Reflection.Assembly LoadFromPath(string fullPath) => System.Reflection.Assembly.LoadFrom(fullPath);
    }
}

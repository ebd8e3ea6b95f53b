using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Structure;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Diagnostics;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// The code of the README and of the guide, as a newcomer meets it: pasted into the `Program.cs` of a fresh project that has the
/// packages. A block is a whole program, or its first line names the sample that it is a part of, and that sample is one.
/// </summary>
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

    private static readonly Lazy<MetadataReference[]> s_references = new(() =>
        [.. References().DistinctBy(Path.GetFileName).Select(path => MetadataReference.CreateFromFile(path))]);

    public static TheoryData<string> Samples => [.. Repository.SourceFiles("samples", "*.cs").Select(Repository.RelativePath)];

    [Fact]
    public void Blocks_OfReadmeAndGuide_AreWholeProgramsOrNameTheirSample()
    {
        List<string> whole = [];
        List<string> violations = [];
        foreach (string path in Repository.SourceFiles("docs/guide", "*.md").Prepend(Repository.PathOf("README.md")))
        {
            foreach (Match match in CSharpBlock().Matches(File.ReadAllText(path)))
            {
                string block = match.Groups[1].Value;
                string page = Repository.RelativePath(path);
                if (PartOf().Match(block) is not { Success: true } part)
                {
                    whole.Add(page);
                    violations.AddRange(Errors(block, isWeb: false).Select(error => $"{page}: {error}\n{block}"));
                }
                else if (!Normalized(File.ReadAllText(Repository.PathOf(part.Groups[1].Value)))
                    .Contains(Normalized(block[part.Length..]), StringComparison.Ordinal))
                {
                    violations.Add($"{page}: {part.Groups[1].Value} does not hold these lines:\n{block}");
                }
            }
        }

        Violations.None(violations);
        Assert.Contains("README.md", whole);
    }

    [Theory]
    [MemberData(nameof(Samples))]
    public void Sample_InAFreshProjectWithThePackages_Compiles(string sample)
    {
        string text = File.ReadAllText(Repository.PathOf(sample));

        bool isWeb = text.Contains("#:sdk Microsoft.NET.Sdk.Web", StringComparison.Ordinal);
        Assert.Empty(Errors(Directive().Replace(text, ""), isWeb));
    }

    [Theory]
    [InlineData("Console.WriteLine(new MappedFileQueues.MappedFileQueueOptions());", 0)]
    [InlineData("Console.WriteLine(new MappedFileQueueOptions());", 1)]
    [InlineData("using (var queue = Open())\n{", 2)]
    public void Errors_Text_AreThoseOfTheCompiler(string text, int count) =>
        Assert.Equal(count, Errors(text, isWeb: false).Count);

    private static List<Diagnostic> Errors(string program, bool isWeb)
    {
        CSharpCompilation compilation = CSharpCompilation.Create(
            "Fresh",
            [
                CSharpSyntaxTree.ParseText(isWeb ? WebUsings : ConsoleUsings, s_parseOptions),
                CSharpSyntaxTree.ParseText(program, s_parseOptions),
            ],
            s_references.Value,
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

    /// <summary>The runtime, the web framework, and our assemblies as they were built.</summary>
    private static IEnumerable<string> References()
    {
        string web = Path.Combine(DotnetRoot, "shared", "Microsoft.AspNetCore.App", Path.GetFileName(RuntimeFolder));
        return Directory.GetFiles(RuntimeFolder, "System*.dll")
            .Concat(Directory.GetFiles(RuntimeFolder, "Microsoft.*.dll"))
            .Append(Path.Combine(RuntimeFolder, "netstandard.dll"))
            .Concat(Directory.GetFiles(web, "Microsoft.*.dll"))
            .Concat(Directory.GetFiles(AppContext.BaseDirectory, "MappedFileQueues*.dll")
                .Where(path => !Path.GetFileName(path).Contains("Tests", StringComparison.Ordinal)))
            .Where(IsManaged);
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

    /// <summary>The lines without indentation and without empty ones, so that a block may be a part of a nested one.</summary>
    private static string Normalized(string code) =>
        string.Join('\n', code.Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries));

    [GeneratedRegex(@"^```(?:csharp|cs|c#)\s*\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex CSharpBlock();

    [GeneratedRegex(@"\A// part of (samples/[\w-]+\.cs)\n")]
    private static partial Regex PartOf();

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

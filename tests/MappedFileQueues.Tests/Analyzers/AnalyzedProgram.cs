using System.Collections.Immutable;
using System.Globalization;
using System.Reflection;
using System.Runtime.CompilerServices;
using MappedFileQueues.Analyzers;
using MappedFileQueues.CodeFixes;
using MappedFileQueues.Format;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CodeActions;
using Microsoft.CodeAnalysis.CodeFixes;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Diagnostics;

namespace MappedFileQueues.Tests.Analyzers;

/// <summary>A program of a user, against the SDK's reference assemblies and ours, with the analyzers on.</summary>
internal sealed class AnalyzedProgram : IDisposable
{
    private const string Usings =
        "global using System; global using System.Runtime.CompilerServices; global using System.Runtime.InteropServices; "
        + "global using MappedFileQueues; global using MappedFileQueues.Hosting; global using MappedFileQueues.Testing; "
        + "global using Microsoft.Extensions.DependencyInjection;";

    private static readonly Lazy<MetadataReference[]> s_references = new(() =>
    [
        .. Directory.GetFiles(ReferencePack, "*.dll", SearchOption.AllDirectories)
            .Where(path => Path.GetDirectoryName(path)!.EndsWith("net10.0", StringComparison.Ordinal)
                && !path.Contains("analyzers", StringComparison.Ordinal))
            .Concat(Directory.GetFiles(AppContext.BaseDirectory, "Microsoft.Extensions.*.dll"))
            .Append(typeof(MappedFileQueue).Assembly.Location)
            .Append(typeof(TemporaryStore).Assembly.Location)
            .Append(Path.Combine(AppContext.BaseDirectory, "MappedFileQueues.Hosting.dll"))
            .Select(path => MetadataReference.CreateFromFile(path)),
    ]);

    private readonly AdhocWorkspace _workspace = new();
    private readonly DocumentId _program;

    public AnalyzedProgram(string program)
    {
        Project project = _workspace.AddProject("Fresh", LanguageNames.CSharp)
            .WithMetadataReferences(s_references.Value)
            .WithCompilationOptions(new CSharpCompilationOptions(
                OutputKind.DynamicallyLinkedLibrary, allowUnsafe: true, nullableContextOptions: NullableContextOptions.Enable))
            .WithParseOptions(new CSharpParseOptions(LanguageVersion.Latest));
        Document document = project.AddDocument("Usings.cs", Usings).Project.AddDocument("Program.cs", program);
        _program = document.Id;
        Solution = document.Project.Solution;
    }

    public Solution Solution { get; private set; }

    private static string ReferencePack => Path.Combine(
        Path.GetFullPath(Path.Combine(Path.GetDirectoryName(typeof(object).Assembly.Location)!, "..", "..", "..")),
        "packs", "Microsoft.NETCore.App.Ref");

    public void Dispose() => _workspace.Dispose();

    public async Task<string> TextAsync() => (await Solution.GetDocument(_program)!.GetTextAsync()).ToString();

    public async Task<CSharpCompilation> CompileAsync() =>
        (CSharpCompilation)(await Solution.GetDocument(_program)!.Project.GetCompilationAsync())!;

    /// <summary>What the analyzers say, in the order of the text.</summary>
    public async Task<ImmutableArray<Diagnostic>> AnalyzeAsync()
    {
        CompilationWithAnalyzersOptions options = new(
            new AnalyzerOptions([]), onAnalyzerException: null, concurrentAnalysis: true, logAnalyzerExecutionTime: false);
        CompilationWithAnalyzers analyzed = new(await CompileAsync(), [new MessageStructAnalyzer()], options);
        ImmutableArray<Diagnostic> found = await analyzed.GetAnalyzerDiagnosticsAsync();
        Assert.DoesNotContain(found, diagnostic => diagnostic.Id == "AD0001");
        return [.. found.OrderBy(diagnostic => diagnostic.Location.SourceSpan.Start)];
    }

    /// <summary>The ids and the messages, a line each.</summary>
    public async Task<string[]> FindingsAsync() =>
        [.. (await AnalyzeAsync()).Select(found => $"{found.Id} {found.GetMessage(CultureInfo.InvariantCulture)}")];

    /// <summary>What an editor would offer for the first finding.</summary>
    public async Task<IReadOnlyList<CodeAction>> FixesAsync()
    {
        List<CodeAction> actions = [];
        WriteOffsetsCodeFix fix = new();
        if ((await AnalyzeAsync()).FirstOrDefault(found => fix.FixableDiagnosticIds.Contains(found.Id)) is not { } first)
            return actions;
        CodeFixContext context = new(
            Solution.GetDocument(_program)!, first, (action, _) => actions.Add(action), CancellationToken.None);
        await fix.RegisterCodeFixesAsync(context);
        return actions;
    }

    public async Task ApplyAsync(CodeAction action)
    {
        ImmutableArray<CodeActionOperation> operations = await action.GetOperationsAsync(CancellationToken.None);
        Solution = operations.OfType<ApplyChangesOperation>().Single().ChangedSolution;
    }

    /// <summary>What a store keeps of a struct of the program, and its size. The program compiles without a warning.</summary>
    public async Task<(ulong Fingerprint, int Size)> LayoutAsync(string type)
    {
        CSharpCompilation compilation = await CompileAsync();
        Assert.DoesNotContain(compilation.GetDiagnostics(), found => found.Severity >= DiagnosticSeverity.Warning);
        using MemoryStream image = new();
        Assert.True(compilation.Emit(image).Success);
        Type message = Assembly.Load(image.ToArray()).GetType(type, throwOnError: true)!;
        MethodInfo of = typeof(StructLayoutFingerprint).GetMethod(nameof(StructLayoutFingerprint.Of))!;
        return ((ulong)of.MakeGenericMethod(message).Invoke(null, null)!, RuntimeHelpers.SizeOf(message.TypeHandle));
    }
}

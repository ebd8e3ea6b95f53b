using System.Collections.Immutable;
using System.Composition;
using MappedFileQueues.Analyzers;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CodeActions;
using Microsoft.CodeAnalysis.CodeFixes;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.CodeFixes;

/// <summary>
/// Writes down where the fields of a message are. Alone that changes no byte, so stores of the struct stay readable. With fields
/// for the padding it is another struct to a store, which has to begin anew.
/// </summary>
[ExportCodeFixProvider(LanguageNames.CSharp, Name = nameof(WriteOffsetsCodeFix))]
[Shared]
public sealed class WriteOffsetsCodeFix : CodeFixProvider
{
    /// <inheritdoc/>
    public override ImmutableArray<string> FixableDiagnosticIds { get; } =
        [MessageRules.Padding.Id, MessageRules.AutoLayout.Id];

    /// <summary>Two structs are two decisions.</summary>
    public override FixAllProvider? GetFixAllProvider() => null;

    /// <inheritdoc/>
    public override async Task RegisterCodeFixesAsync(CodeFixContext context)
    {
        foreach (Diagnostic diagnostic in context.Diagnostics)
        {
            bool isAuto = diagnostic.Id == MessageRules.AutoLayout.Id;
            if (await FindAsync(context.Document.Project.Solution, diagnostic, isAuto, context.CancellationToken)
                    .ConfigureAwait(false) is not { } target)
                continue;
            string name = target.Declaration.Identifier.Text;
            if (!isAuto)
                Register($"Write down the offsets of '{name}' (its stores stay readable)", namesPadding: false);
            Register($"Write down the offsets of '{name}', with fields for padding (needs a new store)", namesPadding: true);

            void Register(string title, bool namesPadding) => context.RegisterCodeFix(
                CodeAction.Create(title, stop => ApplyAsync(target, namesPadding, stop), $"Offsets{namesPadding}"), diagnostic);
        }
    }

    private static async Task<Solution> ApplyAsync(Target target, bool namesPadding, CancellationToken stop)
    {
        SyntaxNode root = (await target.Document.GetSyntaxRootAsync(stop).ConfigureAwait(false))!;
        TypeDeclarationSyntax written = OffsetWriter.Write(target.Declaration, target.Layout, namesPadding);
        return target.Document.WithSyntaxRoot(root.ReplaceNode(target.Declaration, written)).Project.Solution;
    }

    /// <summary>The struct of a finding, if its sources are here, in one piece, and can say where each field is.</summary>
    private static async Task<Target?> FindAsync(Solution solution, Diagnostic diagnostic, bool isAuto, CancellationToken stop)
    {
        if (diagnostic.AdditionalLocations.Count != 1
            || solution.GetDocument(diagnostic.AdditionalLocations[0].SourceTree) is not { } document
            || await document.GetSyntaxRootAsync(stop).ConfigureAwait(false) is not { } root
            || await document.GetSemanticModelAsync(stop).ConfigureAwait(false) is not { } model)
            return null;
        TypeDeclarationSyntax? declaration = root.FindNode(diagnostic.AdditionalLocations[0].SourceSpan)
            .FirstAncestorOrSelf<TypeDeclarationSyntax>();
        // Offsets in a generic type would depend on its arguments: the runtime refuses them.
        if (declaration is null || model.GetDeclaredSymbol(declaration, stop) is not INamedTypeSymbol type || IsGeneric(type)
            || ManagedLayout.Of(type, asSequential: isAuto) is not { } layout || !OffsetWriter.CanWrite(declaration, layout))
            return null;
        return new Target(document, declaration, layout);
    }

    private static bool IsGeneric(INamedTypeSymbol? type) =>
        type is not null && (type.Arity > 0 || IsGeneric(type.ContainingType));

    private sealed class Target(Document document, TypeDeclarationSyntax declaration, ManagedLayout layout)
    {
        public Document Document { get; } = document;

        public TypeDeclarationSyntax Declaration { get; } = declaration;

        public ManagedLayout Layout { get; } = layout;
    }
}

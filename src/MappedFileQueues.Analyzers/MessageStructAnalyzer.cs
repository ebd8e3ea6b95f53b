using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Diagnostics;

namespace MappedFileQueues.Analyzers;

/// <summary>
/// Looks at each type argument that is written down for a queue of structs: <c>MappedFileQueue&lt;Tick&gt;</c>. The finding is
/// there, and not at the struct, because a struct alone may have any layout.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class MessageStructAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } =
    [
        MessageRules.Padding, MessageRules.Address, MessageRules.Reference, MessageRules.AutoLayout, MessageRules.Boolean,
        MessageRules.Character, MessageRules.Decimal, MessageRules.Date,
    ];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterSyntaxNodeAction(Analyze, SyntaxKind.GenericName);
    }

    private static void Analyze(SyntaxNodeAnalysisContext context)
    {
        GenericNameSyntax name = (GenericNameSyntax)context.Node;
        // A type that breaks a constraint is a candidate only.
        SymbolInfo info = context.SemanticModel.GetSymbolInfo(name, context.CancellationToken);
        ISymbol? symbol = info.Symbol ?? (info.CandidateSymbols.Length == 1 ? info.CandidateSymbols[0] : null);
        foreach ((int index, ITypeSymbol message) in MessageUses.Of(symbol))
        {
            Location location = name.TypeArgumentList.Arguments[index].GetLocation();
            foreach (MessageFinding finding in MessageInspector.Inspect(message))
            {
                IEnumerable<Location>? declaration = finding.Owner?.Locations.Where(place => place.IsInSource);
                context.ReportDiagnostic(Diagnostic.Create(finding.Rule, location, declaration, finding.Arguments));
            }
        }
    }
}

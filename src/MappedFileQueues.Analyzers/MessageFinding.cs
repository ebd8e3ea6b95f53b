using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Analyzers;

/// <summary>One finding about a message.</summary>
internal readonly struct MessageFinding(DiagnosticDescriptor rule, INamedTypeSymbol? owner, params object[] arguments)
{
    public DiagnosticDescriptor Rule { get; } = rule;

    /// <summary>The struct whose layout would have to change; null for a message that is no struct.</summary>
    public INamedTypeSymbol? Owner { get; } = owner;

    public object[] Arguments { get; } = arguments;
}

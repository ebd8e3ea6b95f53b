using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Analyzers;

/// <summary>Finds the type arguments that are structs of a queue.</summary>
internal static class MessageUses
{
    /// <summary>The packages whose types and methods have messages as type arguments.</summary>
    private static readonly string[] s_packages = ["MappedFileQueues", "MappedFileQueues.Hosting", "MappedFileQueues.Testing"];

    /// <summary>
    /// The arguments of a type or method that are messages: those whose parameter is a struct (<c>where T : unmanaged</c>, and
    /// <c>where T : struct</c> of the interfaces of 1.x).
    /// </summary>
    public static IEnumerable<(int Index, ITypeSymbol Message)> Of(ISymbol? symbol)
    {
        (IReadOnlyList<ITypeParameterSymbol> parameters, IReadOnlyList<ITypeSymbol> arguments) = symbol switch
        {
            INamedTypeSymbol type => (type.TypeParameters, type.TypeArguments),
            IMethodSymbol method => (method.TypeParameters, method.TypeArguments),
            _ => ((IReadOnlyList<ITypeParameterSymbol>)[], (IReadOnlyList<ITypeSymbol>)[]),
        };
        if (parameters.Count == 0 || Array.IndexOf(s_packages, symbol!.ContainingAssembly?.Name) < 0)
            yield break;
        for (int index = 0; index < parameters.Count; index++)
        {
            if (parameters[index].HasUnmanagedTypeConstraint || parameters[index].HasValueTypeConstraint)
                yield return (index, arguments[index]);
        }
    }
}

using Microsoft.CodeAnalysis;

namespace MappedFileQueues.Analyzers;

/// <summary>Looks at a message and at all structs inside it.</summary>
internal static class MessageInspector
{
    public static List<MessageFinding> Inspect(ITypeSymbol message)
    {
        List<MessageFinding> findings = [];
        Inspect(message, null, findings, new HashSet<ITypeSymbol>(SymbolEqualityComparer.Default));
        return findings;
    }

    private static void Inspect(ITypeSymbol type, IFieldSymbol? field, List<MessageFinding> findings, HashSet<ITypeSymbol> seen)
    {
        if (RuleOf(type) is { } rule)
        {
            findings.Add(new MessageFinding(rule, field?.ContainingType, NameOf(type, field), type.ToDisplayString()));
            return;
        }

        // A number has no fields to look at.
        if (type is not INamedTypeSymbol { TypeKind: TypeKind.Struct, OriginalDefinition.SpecialType: var special } named
            || special is not (SpecialType.None or SpecialType.System_Nullable_T))
            return;
        if (!seen.Add(named))
            return;
        if (ManagedLayout.IsAuto(named))
            findings.Add(new MessageFinding(MessageRules.AutoLayout, named, NameOf(type, field), type.ToDisplayString()));
        // What the framework's own structs hold is not shown to compilers; their arguments are.
        if (ManagedLayout.IsOfFramework(named))
        {
            foreach (ITypeSymbol argument in named.TypeArguments)
                Inspect(argument, field, findings, seen);
            return;
        }

        AddPadding(named, findings);
        foreach (IFieldSymbol inner in ManagedLayout.FieldsOf(named))
            Inspect(inner.IsFixedSizeBuffer ? ((IPointerTypeSymbol)inner.Type).PointedAtType : inner.Type, inner, findings, seen);
    }

    private static void AddPadding(INamedTypeSymbol type, List<MessageFinding> findings)
    {
        if (ManagedLayout.Of(type) is not { IsSequential: true } layout)
            return;
        foreach (LayoutGap gap in layout.Gaps)
        {
            string place = gap.After is null ? "at its end" : $"after {NameOf(gap.After)}";
            findings.Add(new MessageFinding(MessageRules.Padding, type, type.ToDisplayString(), gap.Length, place));
        }
    }

    private static DiagnosticDescriptor? RuleOf(ITypeSymbol type) => type switch
    {
        { TypeKind: TypeKind.Pointer or TypeKind.FunctionPointer } => MessageRules.Address,
        { SpecialType: SpecialType.System_IntPtr or SpecialType.System_UIntPtr } => MessageRules.Address,
        { SpecialType: SpecialType.System_Boolean } => MessageRules.Boolean,
        { SpecialType: SpecialType.System_Char } => MessageRules.Character,
        { SpecialType: SpecialType.System_Decimal } => MessageRules.Decimal,
        { SpecialType: SpecialType.System_DateTime } => MessageRules.Date,
        { TypeKind: TypeKind.Error } => null,
        { IsReferenceType: true } => MessageRules.Reference,
        _ => null,
    };

    private static string NameOf(ITypeSymbol type, IFieldSymbol? field) =>
        field is null ? $"'{type.ToDisplayString()}'" : $"'{field.ContainingType.Name}.{NameOf(field)}'";

    /// <summary>A property without a body has a field that only the compiler can name.</summary>
    private static string NameOf(IFieldSymbol field) => field.AssociatedSymbol?.Name ?? field.Name;
}

using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Analyzers;

/// <summary>
/// Where the runtime puts the fields of a struct without references, on a machine of 64 bits: one after the other, each at a
/// multiple of its own alignment or of the pack size, whichever is smaller. The compiler knows the fields, but not this.
/// </summary>
internal sealed class ManagedLayout
{
    private const int AutoLayoutKind = 3;
    private const int ExplicitLayoutKind = 2;

    /// <summary>Size and alignment of structs of the framework, whose fields compilers do not see.</summary>
    private static readonly Dictionary<string, (int Size, int Alignment)> s_known = new()
    {
        ["System.DateTimeOffset"] = (16, 8),
        ["System.TimeSpan"] = (8, 8),
        ["System.DateOnly"] = (4, 4),
        ["System.TimeOnly"] = (8, 8),
        ["System.Guid"] = (16, 4),
        ["System.Half"] = (2, 2),
        ["System.Int128"] = (16, 16),
        ["System.UInt128"] = (16, 16),
        ["System.Text.Rune"] = (4, 4),
        ["System.Index"] = (4, 4),
        ["System.Range"] = (8, 4),
        ["System.Numerics.Complex"] = (16, 8),
        ["System.Numerics.Vector2"] = (8, 4),
        ["System.Numerics.Vector3"] = (12, 4),
        ["System.Numerics.Vector4"] = (16, 4),
        ["System.Numerics.Quaternion"] = (16, 4),
    };

    private ManagedLayout(bool isSequential, int size, int alignment)
    {
        IsSequential = isSequential;
        Size = size;
        Alignment = alignment;
    }

    /// <summary>The fields are one after the other; otherwise their author has said where each of them is.</summary>
    public bool IsSequential { get; }

    public int Size { get; private set; }

    public int Alignment { get; private set; }

    public List<(IFieldSymbol Field, int Offset)> Fields { get; } = [];

    public List<LayoutGap> Gaps { get; } = [];

    /// <summary>Null for what cannot be told: generic parameters, references, and structs whose fields are not shown.</summary>
    public static ManagedLayout? Of(ITypeSymbol type, bool asSequential = false) => Of(type, 0, asSequential);

    public static IEnumerable<IFieldSymbol> FieldsOf(INamedTypeSymbol type) =>
        type.GetMembers().OfType<IFieldSymbol>().Where(field => field is { IsStatic: false, IsConst: false });

    public static bool IsOfFramework(ITypeSymbol type)
    {
        INamespaceSymbol? outermost = type.ContainingNamespace;
        while (outermost is { ContainingNamespace.IsGlobalNamespace: false })
            outermost = outermost.ContainingNamespace;
        return outermost?.Name == "System" && type.Locations.All(location => location.IsInMetadata);
    }

    /// <summary>The runtime orders the fields. Of metadata only the framework's own types are known to be such.</summary>
    public static bool IsAuto(INamedTypeSymbol type) =>
        type.IsTupleType || LayoutOf(type).Kind == AutoLayoutKind || type.ToDisplayString() == "System.DateTimeOffset";

    private static ManagedLayout? Of(ITypeSymbol type, int depth, bool asSequential = false)
    {
        // Code that does not compile may have a struct inside itself.
        if (depth > 64)
            return null;
        if (type is INamedTypeSymbol { EnumUnderlyingType: { } underlying })
            type = underlying;
        if (SizeOf(type.SpecialType) is > 0 and int size)
            return new ManagedLayout(false, size, type.SpecialType == SpecialType.System_Decimal ? 8 : size);
        if (type is not INamedTypeSymbol { TypeKind: TypeKind.Struct } named || named.IsTupleType)
            return null;
        if (named.OriginalDefinition.SpecialType == SpecialType.System_Nullable_T)
            return OfNullable(named.TypeArguments[0], depth);
        if (s_known.TryGetValue(named.ToDisplayString(), out (int Size, int Alignment) known))
            return new ManagedLayout(false, known.Size, known.Alignment);
        // The layout of a struct of another assembly is not among what the compiler's symbols say, and captured parameters are no
        // members of it.
        if (named.DeclaringSyntaxReferences.IsEmpty || HasPrimaryConstructor(named))
            return null;
        return OfFields(named, depth, asSequential);
    }

    private static ManagedLayout? OfNullable(ITypeSymbol inner, int depth) =>
        Of(inner, depth + 1) is { } layout
            ? new ManagedLayout(false, layout.Alignment + layout.Size, layout.Alignment)
            : null;

    private static ManagedLayout? OfFields(INamedTypeSymbol type, int depth, bool asSequential)
    {
        (int kind, int pack, int declaredSize) = LayoutOf(type);
        if (kind == AutoLayoutKind && !asSequential)
            return null;
        bool isExplicit = kind == ExplicitLayoutKind;
        ManagedLayout layout = new(!isExplicit, 0, 1);
        IFieldSymbol? last = null;
        foreach (IFieldSymbol field in FieldsOf(type))
        {
            if (OfField(field, depth) is not { } inner)
                return null;
            int alignment = pack == 0 ? inner.Alignment : Math.Min(pack, inner.Alignment);
            int offset = isExplicit ? OffsetOf(field) : RoundUp(layout.Size, alignment);
            if (offset > layout.Size && !isExplicit)
                layout.Gaps.Add(new LayoutGap(layout.Size, offset - layout.Size, last));
            layout.Fields.Add((field, offset));
            layout.Size = Math.Max(layout.Size, offset + (inner.Size * LengthOf(type)));
            layout.Alignment = Math.Max(layout.Alignment, alignment);
            last = field;
        }

        int end = layout.Size;
        layout.Size = declaredSize > 0 ? Math.Max(declaredSize, end) : Math.Max(1, RoundUp(end, layout.Alignment));
        // A size that was asked for is no accident.
        if (declaredSize == 0 && layout.Size > end && last is not null && !isExplicit)
            layout.Gaps.Add(new LayoutGap(end, layout.Size - end, null));
        return layout;
    }

    private static ManagedLayout? OfField(IFieldSymbol field, int depth)
    {
        if (!field.IsFixedSizeBuffer)
            return Of(field.Type, depth + 1);
        return Of(((IPointerTypeSymbol)field.Type).PointedAtType, depth + 1) is { } element
            ? new ManagedLayout(false, element.Size * field.FixedSize, element.Alignment)
            : null;
    }

    private static bool HasPrimaryConstructor(INamedTypeSymbol type) =>
        !type.IsRecord && type.DeclaringSyntaxReferences.Any(reference =>
            reference.GetSyntax() is TypeDeclarationSyntax { ParameterList.Parameters.Count: > 0 });

    /// <summary>How often the field of an inline array is there; 1 for all others.</summary>
    private static int LengthOf(INamedTypeSymbol type) =>
        AttributeOf(type, "System.Runtime.CompilerServices.InlineArrayAttribute")?.ConstructorArguments[0].Value is int length
            ? length
            : 1;

    private static int OffsetOf(IFieldSymbol field) =>
        AttributeOf(field, "System.Runtime.InteropServices.FieldOffsetAttribute")?.ConstructorArguments[0].Value is int offset
            ? offset
            : 0;

    /// <summary>A struct without the attribute is sequential.</summary>
    private static (int Kind, int Pack, int Size) LayoutOf(INamedTypeSymbol type)
    {
        AttributeData? attribute = AttributeOf(type, "System.Runtime.InteropServices.StructLayoutAttribute");
        if (attribute is null || attribute.ConstructorArguments.Length == 0)
            return default;
        return (Convert.ToInt32(attribute.ConstructorArguments[0].Value), NumberOf("Pack"), NumberOf("Size"));

        int NumberOf(string name) =>
            attribute.NamedArguments.FirstOrDefault(argument => argument.Key == name).Value.Value is int number ? number : 0;
    }

    private static AttributeData? AttributeOf(ISymbol symbol, string name) =>
        symbol.GetAttributes().FirstOrDefault(attribute => attribute.AttributeClass?.ToDisplayString() == name);

    private static int SizeOf(SpecialType type) => type switch
    {
        SpecialType.System_Boolean or SpecialType.System_SByte or SpecialType.System_Byte => 1,
        SpecialType.System_Char or SpecialType.System_Int16 or SpecialType.System_UInt16 => 2,
        SpecialType.System_Int32 or SpecialType.System_UInt32 or SpecialType.System_Single => 4,
        SpecialType.System_Int64 or SpecialType.System_UInt64 or SpecialType.System_Double => 8,
        SpecialType.System_DateTime => 8,
        SpecialType.System_Decimal => 16,
        _ => 0,
    };

    private static int RoundUp(int value, int alignment) => (value + alignment - 1) / alignment * alignment;
}

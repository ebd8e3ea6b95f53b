using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// Lists what users of an assembly can see, a type or member a line, sorted, with everything that a caller's compiler looks at:
/// nullability, defaults, constraints, by-ref kinds.
/// </summary>
internal static class PublicSurface
{
    private const SymbolDisplayMiscellaneousOptions Miscellaneous =
        SymbolDisplayMiscellaneousOptions.UseSpecialTypes
        | SymbolDisplayMiscellaneousOptions.EscapeKeywordIdentifiers
        | SymbolDisplayMiscellaneousOptions.IncludeNullableReferenceTypeModifier
        | SymbolDisplayMiscellaneousOptions.AllowDefaultLiteral;

    private const SymbolDisplayGenericsOptions Generics =
        SymbolDisplayGenericsOptions.IncludeTypeParameters
        | SymbolDisplayGenericsOptions.IncludeTypeConstraints
        | SymbolDisplayGenericsOptions.IncludeVariance;

    /// <summary>How a type is written.</summary>
    public static readonly SymbolDisplayFormat TypeFormat = new(
        typeQualificationStyle: SymbolDisplayTypeQualificationStyle.NameAndContainingTypesAndNamespaces,
        genericsOptions: Generics,
        delegateStyle: SymbolDisplayDelegateStyle.NameAndSignature,
        parameterOptions: SymbolDisplayParameterOptions.IncludeType | SymbolDisplayParameterOptions.IncludeName,
        miscellaneousOptions: Miscellaneous);

    private static readonly SymbolDisplayFormat s_memberFormat = new(
        typeQualificationStyle: SymbolDisplayTypeQualificationStyle.NameAndContainingTypes,
        genericsOptions: Generics,
        memberOptions: SymbolDisplayMemberOptions.IncludeAccessibility | SymbolDisplayMemberOptions.IncludeModifiers
            | SymbolDisplayMemberOptions.IncludeType | SymbolDisplayMemberOptions.IncludeRef
            | SymbolDisplayMemberOptions.IncludeParameters | SymbolDisplayMemberOptions.IncludeConstantValue
            | SymbolDisplayMemberOptions.IncludeExplicitInterface,
        parameterOptions: SymbolDisplayParameterOptions.IncludeType | SymbolDisplayParameterOptions.IncludeName
            | SymbolDisplayParameterOptions.IncludeModifiers | SymbolDisplayParameterOptions.IncludeDefaultValue,
        propertyStyle: SymbolDisplayPropertyStyle.ShowReadWriteDescriptor,
        miscellaneousOptions: Miscellaneous);

    /// <summary>The packages that have an API; the first is the core.</summary>
    public static IReadOnlyList<string> Packages { get; } =
    [
        "MappedFileQueues", "MappedFileQueues.Files", "MappedFileQueues.Hosting", "MappedFileQueues.Logging",
        "MappedFileQueues.MemoryPack", "MappedFileQueues.MessagePack", "MappedFileQueues.Packs", "MappedFileQueues.Protobuf",
        "MappedFileQueues.RabbitMQ", "MappedFileQueues.Testing",
    ];

    /// <summary>A package's assembly, as the tests have it beside them.</summary>
    public static string PathOf(string package) => Path.Combine(AppContext.BaseDirectory, $"{package}.dll");

    /// <summary>Compiles nothing with the runtime, what packages refer to, and assemblies to be looked into.</summary>
    public static CSharpCompilation CompilationWith(params IEnumerable<MetadataReference> assemblies) => CSharpCompilation.Create(
        "Surface",
        references:
        [
            .. SourceCompilation.RuntimeReferences,
            .. Directory.EnumerateFiles(AppContext.BaseDirectory, "*.dll")
                .Where(path => Path.GetFileName(path) is var name
                    && (name.StartsWith("Microsoft.Extensions.", StringComparison.Ordinal)
                        || name is "Google.Protobuf.dll" or "MemoryPack.Core.dll" or "MessagePack.dll" or "RabbitMQ.Client.dll"))
                .Select(path => MetadataReference.CreateFromFile(path)),
            .. assemblies,
        ],
        options: new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary));

    /// <summary>The surface of a built assembly; what is private or internal in it is not even read.</summary>
    /// <param name="assembly">The assembly.</param>
    /// <param name="others">Further ones that it refers to.</param>
    public static string Of(MetadataReference assembly, params IEnumerable<MetadataReference> others)
    {
        CSharpCompilation compilation = CompilationWith([assembly, .. others]);
        IAssemblySymbol symbol = (IAssemblySymbol)compilation.GetAssemblyOrModuleSymbol(assembly)!;
        IEnumerable<INamedTypeSymbol> types =
            TypesOf(symbol.GlobalNamespace).OrderBy(type => type.ToDisplayString(TypeFormat), StringComparer.Ordinal);
        return string.Concat(types.Select(Describe));
    }

    /// <summary>The types that a user of an assembly can see.</summary>
    public static IEnumerable<INamedTypeSymbol> TypesOf(INamespaceOrTypeSymbol container) =>
        container.GetMembers().SelectMany(member => member switch
        {
            INamespaceSymbol inner => TypesOf(inner),
            INamedTypeSymbol type when IsVisible(type) => TypesOf(type).Prepend(type),
            _ => [],
        });

    /// <summary>The first line of a type: what it is, its name, what it derives from.</summary>
    public static string HeadOf(INamedTypeSymbol type)
    {
        IEnumerable<string> bases = new[] { type.BaseType }.OfType<INamedTypeSymbol>()
            .Where(baseType => baseType.SpecialType is not SpecialType.System_Object and not SpecialType.System_ValueType
                and not SpecialType.System_Enum)
            .Concat(type.Interfaces.OrderBy(face => face.ToDisplayString(), StringComparer.Ordinal))
            .Select(baseType => baseType.ToDisplayString(s_memberFormat));
        return $"{Modifiers(type)} {type.ToDisplayString(TypeFormat)}{Joined(bases)}";
    }

    /// <summary>The members of a type that a user can see, sorted by their lines.</summary>
    public static IEnumerable<ISymbol> MembersOf(INamedTypeSymbol type) => type.GetMembers()
        .Where(member => IsVisible(member) && IsListed(type, member))
        .OrderBy(LineOf, StringComparer.Ordinal);

    /// <summary>A member as a caller's compiler sees it.</summary>
    public static string LineOf(ISymbol member) => member.ToDisplayString(s_memberFormat);

    private static string Describe(INamedTypeSymbol type) =>
        $"{HeadOf(type)}\n{string.Concat(MembersOf(type).Select(member => $"    {LineOf(member)}\n"))}\n";

    private static string Joined(IEnumerable<string> bases) => bases.Any() ? $" : {string.Join(", ", bases)}" : "";

    private static string Modifiers(INamedTypeSymbol type)
    {
        string modifiers = type.DeclaredAccessibility == Accessibility.Public ? "public" : "protected";
        if (type.IsStatic)
            modifiers += " static";
        else if (type is { TypeKind: TypeKind.Class, IsSealed: true })
            modifiers += " sealed";
        else if (type is { TypeKind: TypeKind.Class, IsAbstract: true })
            modifiers += " abstract";
        if (type is { TypeKind: TypeKind.Struct, IsReadOnly: true })
            modifiers += " readonly";
        if (type.IsRefLikeType)
            modifiers += " ref";
        return $"{modifiers} {(type.IsRecord ? "record " : "")}{type.TypeKind.ToString().ToLowerInvariant()}";
    }

    /// <summary>Accessors are part of their property or event; types have entries of their own.</summary>
    private static bool IsListed(INamedTypeSymbol type, ISymbol member) =>
        member is not INamedTypeSymbol
        && member is not IMethodSymbol { AssociatedSymbol: not null }
        && !(type.TypeKind == TypeKind.Enum && member is IMethodSymbol)
        && !(type.TypeKind == TypeKind.Delegate)
        && !(type.IsValueType && member is IMethodSymbol { MethodKind: MethodKind.Constructor, Parameters.Length: 0 });

    /// <summary>Public, or protected and overridable by users; in a sealed type protected members are nobody's.</summary>
    private static bool IsVisible(ISymbol symbol) => symbol.DeclaredAccessibility switch
    {
        Accessibility.Public => true,
        Accessibility.Protected or Accessibility.ProtectedOrInternal => symbol.ContainingType is { IsSealed: false },
        _ => false,
    };
}

using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// An engine type gets what it calls in its constructor. A delegate that somebody sets later is an edge that no ladder shows, and
/// a call that finds it missing goes wrong in silence. The steps of the laboratories are the one exception.
/// </summary>
[Trait("Category", "Slow")]
public sealed class HookTests
{
    private static readonly string[] s_ofLaboratories = ["ProtocolSteps.Handler"];

    [Fact]
    public void Core_NoInternalType_HasASettableDelegate() => Assert.Equal(
        s_ofLaboratories, Find(SourceCompilation.Core, SourceCompilation.CoreFolder).Order(StringComparer.Ordinal));

    [Theory]
    [InlineData("public Action? Rolled { get; set; }")]
    [InlineData("public Func<string>? Name { get; init; }")]
    [InlineData("public Action? Rolled;")]
    public void Find_ASettableDelegate_IsFound(string member) => Assert.Single(Find(
        SourceCompilation.Compile([("src/A.cs", $"internal class Engine {{ {member} }}")]), "src/"));

    [Theory]
    [InlineData("private readonly Action? _rolled;")]
    [InlineData("public Action? Rolled { get; }")]
    [InlineData("public event Action? Rolled;")]
    public void Find_WhatTheConstructorGets_IsNone(string member) => Assert.Empty(Find(
        SourceCompilation.Compile([("src/A.cs", $"internal class Engine {{ {member} }}")]), "src/"));

    private static IEnumerable<string> Find(CSharpCompilation compilation, string folder)
    {
        foreach (SyntaxTree tree in compilation.SyntaxTrees.Where(
            tree => tree.FilePath.StartsWith(folder, StringComparison.Ordinal)))
        {
            SemanticModel model = compilation.GetSemanticModel(tree);
            foreach (TypeDeclarationSyntax type in tree.GetRoot().DescendantNodes().OfType<TypeDeclarationSyntax>())
            {
                if (model.GetDeclaredSymbol(type) is not { DeclaredAccessibility: not Accessibility.Public } symbol)
                    continue;
                foreach (ISymbol member in symbol.GetMembers().Where(IsSettableDelegate))
                    yield return $"{symbol.Name}.{member.Name}";
            }
        }
    }

    private static bool IsSettableDelegate(ISymbol member) => member switch
    {
        IPropertySymbol property => property is { SetMethod: not null, Type.TypeKind: TypeKind.Delegate },
        IFieldSymbol field => field is { IsReadOnly: false, IsImplicitlyDeclared: false, Type.TypeKind: TypeKind.Delegate }
            && field.DeclaredAccessibility != Accessibility.Private,
        _ => false,
    };
}

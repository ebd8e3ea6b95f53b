using MappedFileQueues.Analyzers;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Formatting;
using Microsoft.CodeAnalysis.Simplification;

namespace MappedFileQueues.CodeFixes;

/// <summary>
/// Writes offsets into the declaration of a struct: at fields, properties without a body, and a record's parameters.
/// </summary>
internal static class OffsetWriter
{
    private const string Interop = "System.Runtime.InteropServices.";

    /// <summary>Each field is written somewhere in this declaration.</summary>
    public static bool CanWrite(TypeDeclarationSyntax declaration, ManagedLayout layout) =>
        layout.Fields.All(field => PlaceOf(field.Field) is { } place && declaration.Span.Contains(place.Span));

    public static TypeDeclarationSyntax Write(TypeDeclarationSyntax declaration, ManagedLayout layout, bool namesPadding)
    {
        Dictionary<SyntaxNode, int> offsets = layout.Fields.ToDictionary(field => PlaceOf(field.Field)!, field => field.Offset);
        IEnumerable<MemberDeclarationSyntax> members = declaration.Members.SelectMany(member => WithOffsets(member, offsets));
        if (namesPadding)
            members = members.Concat(layout.Gaps.SelectMany(PaddingOf));
        TypeDeclarationSyntax written = declaration;
        if (declaration.ParameterList is { } parameters)
        {
            written = written.WithParameterList(parameters.WithParameters(SyntaxFactory.SeparatedList(
                parameters.Parameters.Select(parameter => WithOffset(parameter, offsets)),
                parameters.Parameters.GetSeparators())));
        }

        written = WithMembers(written, [.. members]);
        return WithLayout(written, $"({Interop}LayoutKind.Explicit, Size = {layout.Size})")
            .WithAdditionalAnnotations(Formatter.Annotation);
    }

    /// <summary>What takes the attribute of a field: its declarator, a property, or a parameter.</summary>
    private static SyntaxNode? PlaceOf(IFieldSymbol field) =>
        (field.AssociatedSymbol ?? field).DeclaringSyntaxReferences.FirstOrDefault()?.GetSyntax();

    private static IEnumerable<MemberDeclarationSyntax> WithOffsets(
        MemberDeclarationSyntax member, Dictionary<SyntaxNode, int> offsets)
    {
        if (member is PropertyDeclarationSyntax property && offsets.TryGetValue(property, out int offset))
            return [WithAttribute(property, Offset(offset, ofProperty: true))];
        if (member is not FieldDeclarationSyntax field || !field.Declaration.Variables.Any(offsets.ContainsKey))
            return [member];
        // Fields of one declaration would share its attribute.
        return field.Declaration.Variables.Select((variable, index) => WithAttribute(
            (index == 0 ? field : field.WithoutLeadingTrivia()).WithDeclaration(field.Declaration.WithVariables(
                SyntaxFactory.SingletonSeparatedList(variable.WithoutTrivia()))),
            Offset(offsets[variable], ofProperty: false)));
    }

    private static ParameterSyntax WithOffset(ParameterSyntax parameter, Dictionary<SyntaxNode, int> offsets) =>
        offsets.TryGetValue(parameter, out int offset)
            ? parameter.WithoutLeadingTrivia()
                .AddAttributeLists(Offset(offset, ofProperty: true).WithTrailingTrivia(SyntaxFactory.Space))
                .WithLeadingTrivia(parameter.GetLeadingTrivia())
            : parameter;

    /// <summary>Fields of the largest sizes that fit at their offsets.</summary>
    private static IEnumerable<MemberDeclarationSyntax> PaddingOf(LayoutGap gap)
    {
        int end = gap.Offset + gap.Length;
        for (int offset = gap.Offset, size; offset < end; offset += size)
        {
            size = 8;
            while (offset % size != 0 || offset + size > end)
                size /= 2;
            string type = size switch { 8 => "ulong", 4 => "uint", 2 => "ushort", _ => "byte" };
            MemberDeclarationSyntax field = SyntaxFactory.ParseMemberDeclaration($"private readonly {type} _padding{offset};")!;
            yield return WithAttribute(field, Offset(offset, ofProperty: false))
                .WithTrailingTrivia(SyntaxFactory.ElasticCarriageReturnLineFeed);
        }
    }

    private static TypeDeclarationSyntax WithMembers(TypeDeclarationSyntax declaration, MemberDeclarationSyntax[] members)
    {
        if (members.Length == 0 || !declaration.SemicolonToken.IsKind(SyntaxKind.SemicolonToken))
            return declaration.WithMembers(SyntaxFactory.List(members));
        SyntaxTriviaList end = declaration.SemicolonToken.TrailingTrivia;
        return declaration.WithSemicolonToken(default)
            .WithOpenBraceToken(SyntaxFactory.Token(SyntaxKind.OpenBraceToken))
            .WithMembers(SyntaxFactory.List(members))
            .WithCloseBraceToken(SyntaxFactory.Token(SyntaxKind.CloseBraceToken).WithTrailingTrivia(end));
    }

    /// <summary>Takes the place of an attribute that is there.</summary>
    private static TypeDeclarationSyntax WithLayout(TypeDeclarationSyntax declaration, string arguments)
    {
        AttributeSyntax? old = declaration.AttributeLists.SelectMany(list => list.Attributes)
            .FirstOrDefault(attribute =>
                attribute.Name.ToString().Split('.').Last() is "StructLayout" or "StructLayoutAttribute");
        AttributeArgumentListSyntax list = SyntaxFactory.ParseAttributeArgumentList(arguments)!
            .WithAdditionalAnnotations(Simplifier.Annotation);
        if (old is not null)
            return declaration.ReplaceNode(old, old.WithArgumentList(list));
        AttributeSyntax attribute = SyntaxFactory.Attribute(SyntaxFactory.ParseName(Interop + "StructLayout"), list);
        return (TypeDeclarationSyntax)WithAttribute(declaration, ListOf(attribute));
    }

    private static MemberDeclarationSyntax WithAttribute(MemberDeclarationSyntax member, AttributeListSyntax attribute) =>
        member.WithoutLeadingTrivia()
            .WithAttributeLists(member.AttributeLists.Insert(0, attribute))
            .WithLeadingTrivia(member.GetLeadingTrivia());

    private static AttributeListSyntax Offset(int offset, bool ofProperty)
    {
        AttributeListSyntax list = ListOf(SyntaxFactory.Attribute(
            SyntaxFactory.ParseName(Interop + "FieldOffset"), SyntaxFactory.ParseAttributeArgumentList($"({offset})")));
        return ofProperty
            ? list.WithTarget(SyntaxFactory.AttributeTargetSpecifier(SyntaxFactory.Token(SyntaxKind.FieldKeyword)))
            : list;
    }

    private static AttributeListSyntax ListOf(AttributeSyntax attribute) =>
        SyntaxFactory.AttributeList(SyntaxFactory.SingletonSeparatedList(attribute))
            .WithAdditionalAnnotations(Simplifier.Annotation, Formatter.Annotation);
}

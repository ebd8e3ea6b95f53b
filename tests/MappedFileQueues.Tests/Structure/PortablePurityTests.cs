using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Linux.Calls;
using MappedFileQueues.Platform.Portable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// The portable platform is what runs where nobody tested a native call: it holds none, and leans on no Linux type that does.
/// And in the whole core native calls stand in the Linux platform alone.
/// </summary>
[Trait("Category", "Slow")]
public sealed class PortablePurityTests
{
    private static readonly string[] s_nativeNames =
        ["DllImport", "DllImportAttribute", "LibraryImport", "LibraryImportAttribute", "NativeLibrary", "UnmanagedCallersOnly"];

    [Fact]
    public void Core_PortableFiles_HoldNoNativeCall()
    {
        SyntaxTree[] portable = [.. SourceCompilation.Core.SyntaxTrees.Where(tree => IsPlatformFile(tree, "Portable/"))];

        Assert.NotEmpty(portable);
        Violations.None(portable.SelectMany(FindImpurities));
    }

    [Fact]
    public void Core_OtherFilesThanLinux_HoldNoNativeCall() =>
        Violations.None(
            SourceCompilation.Core.SyntaxTrees.Where(tree => !IsPlatformFile(tree, "Linux/")).SelectMany(FindNativeCalls));

    [Theory]
    [InlineData("class P { [DllImport(\"libc\")] static extern int getpid(); }")]
    [InlineData("partial class P { [LibraryImport(\"libc\")] private static partial int getpid(); }")]
    [InlineData("class P { void M() => LinuxNative.Sync(1); }")]
    [InlineData("class P { void M() => new LinuxFile(); }")]
    [InlineData("unsafe class P { delegate* unmanaged<int> _call; }")]
    [InlineData("class P { void M() => System.Runtime.InteropServices.NativeLibrary.Load(\"libc\"); }")]
    public void FindImpurities_NativeCallOrLinuxType_IsFound(string text) =>
        Assert.NotEmpty(FindImpurities(SourceCompilation.Parse("PortableFile.cs", text)));

    [Fact]
    public void FindImpurities_WordsInCommentsAndStrings_AreNone() =>
        Violations.None(FindImpurities(SourceCompilation.Parse(
            "PortableFile.cs",
            "class P { /* no LinuxNative, DllImport */ string s = \"LibraryImport\"; bool M() => OperatingSystem.IsLinux(); }")));

    private static bool IsPlatformFile(SyntaxTree tree, string prefix) =>
        tree.FilePath.StartsWith($"{SourceCompilation.CoreFolder}Platform/{prefix}", StringComparison.Ordinal);

    private static IEnumerable<string> FindImpurities(SyntaxTree tree) =>
        FindNativeCalls(tree).Concat(
            from name in tree.GetRoot().DescendantNodes().OfType<SimpleNameSyntax>()
            where name.Identifier.ValueText.StartsWith("Linux", StringComparison.Ordinal)
            select $"{SourceCompilation.Place(name)}: {name}");

    private static IEnumerable<string> FindNativeCalls(SyntaxTree tree) =>
        from node in tree.GetRoot().DescendantNodes()
        where node switch
        {
            SimpleNameSyntax name => s_nativeNames.Contains(name.Identifier.ValueText),
            FunctionPointerUnmanagedCallingConventionListSyntax => true,
            FunctionPointerCallingConventionSyntax convention =>
                convention.ManagedOrUnmanagedKeyword.IsKind(SyntaxKind.UnmanagedKeyword),
            BaseMethodDeclarationSyntax method => method.Modifiers.Any(SyntaxKind.ExternKeyword),
            _ => false,
        }
        select $"{SourceCompilation.Place(node)}: {node.ToString().Split('\n')[0]}";
}

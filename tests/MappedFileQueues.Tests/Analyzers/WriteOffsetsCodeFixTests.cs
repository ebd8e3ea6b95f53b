using Microsoft.CodeAnalysis.CodeActions;

namespace MappedFileQueues.Tests.Analyzers;

/// <summary>Offsets that are written down are those that the runtime chose, so a store of the struct stays readable.</summary>
[Trait("Category", "Slow")]
public sealed class WriteOffsetsCodeFixTests
{
    [Theory]
    [InlineData("public record struct M(int A, double B);")]
    [InlineData("public readonly record struct M(byte A, short B, long C, byte D);")]
    [InlineData("public record struct M(byte A, int B) { public long C; public byte D { get; set; } }")]
    [InlineData("public struct M { public byte A, B, C; public int D; /* The last. */ public byte E; }")]
    [InlineData("public struct M { public byte A { get; init; } public decimal B { get; init; } }")]
    [InlineData("[StructLayout(LayoutKind.Sequential, Pack = 4)] public struct M { public byte A; public long B; }")]
    [InlineData("public unsafe struct M { public byte A; public fixed int B[3]; public Guid C; public byte D; }")]
    public async Task Offsets_OfAStruct_ChangeNothing(string declaration)
    {
        using AnalyzedProgram program = Program(declaration);
        (ulong fingerprint, int size) = await program.LayoutAsync("M");
        IReadOnlyList<CodeAction> fixes = await program.FixesAsync();
        Assert.Equal(2, fixes.Count);

        await program.ApplyAsync(fixes[0]);

        Assert.Equal((fingerprint, size), await program.LayoutAsync("M"));
        Assert.DoesNotContain(await program.FindingsAsync(), found => found.StartsWith("MFQ0001", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("public record struct M(int A, double B);")]
    [InlineData("public record struct M(byte A, short B, long C, byte D);")]
    [InlineData("public struct M { public byte A, B, C; public int D; public byte E; }")]
    public async Task Padding_WithNames_HasTheSameSize(string declaration)
    {
        using AnalyzedProgram program = Program(declaration);
        (ulong fingerprint, int size) = await program.LayoutAsync("M");

        await program.ApplyAsync((await program.FixesAsync())[1]);

        (ulong after, int sizeAfter) = await program.LayoutAsync("M");
        Assert.Equal(size, sizeAfter);
        Assert.NotEqual(fingerprint, after);
        Assert.Empty(await program.FindingsAsync());
    }

    [Fact]
    public async Task AutoLayout_OfAStruct_IsReplaced()
    {
        using AnalyzedProgram program =
            Program("[StructLayout(LayoutKind.Auto)] public struct M { public byte A; public int B; }");
        await program.ApplyAsync(Assert.Single(await program.FixesAsync()));
        Assert.Equal(8, (await program.LayoutAsync("M")).Size);
        Assert.Empty(await program.FindingsAsync());
    }

    [Fact]
    public async Task Padding_WithNames_IsReadable()
    {
        using AnalyzedProgram program = Program("public record struct M(int A, double B);");
        await program.ApplyAsync((await program.FixesAsync())[1]);
        string text = (await program.TextAsync()).ReplaceLineEndings("\n");
        Assert.EndsWith(
            """
            [StructLayout(LayoutKind.Explicit, Size = 16)]
            public record struct M([field: FieldOffset(0)] int A, [field: FieldOffset(8)] double B)
            {
                [FieldOffset(4)]
                private readonly uint _padding4;
            }
            """,
            text.TrimEnd(), StringComparison.Ordinal);
    }

    /// <summary>The runtime refuses offsets in generic types, and in two pieces nobody would find them.</summary>
    [Theory]
    [InlineData("public struct G<T> where T : unmanaged { public byte A; public T B; }", "G<int>")]
    [InlineData("public partial struct M { public byte A; } public partial struct M { public int B; }", "M")]
    public async Task Offsets_ThatCannotBeWritten_AreNotOffered(string declaration, string message)
    {
        using AnalyzedProgram program = Program(declaration, message);
        Assert.Contains(await program.FindingsAsync(), found => found.StartsWith("MFQ0001", StringComparison.Ordinal));
        Assert.Empty(await program.FixesAsync());
    }

    private static AnalyzedProgram Program(string declaration, string message = "M") => new(
        $"public class Use\n{{\n    public MappedFileQueue<{message}>? Queue;\n}}\n\n{declaration}\n");
}

using MappedFileQueues.Analyzers;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace MappedFileQueues.Tests.Analyzers;

/// <summary>
/// What the analyzers say about a struct, against what the runtime and the queue say of it.
/// </summary>
[Trait("Category", "Slow")]
public sealed class MessageStructAnalyzerTests
{
    [Theory]
    [InlineData("record struct M(int A, double B);", "MFQ0001 'M' has 4 bytes of padding after A")]
    [InlineData("record struct M(double A, int B);", "MFQ0001 'M' has 4 bytes of padding at its end")]
    [InlineData("struct M { public long A; public nint B; }", "MFQ0002 'M.B' is nint")]
    [InlineData("unsafe struct M { public long* A; }", "MFQ0002 'M.A' is long*")]
    [InlineData("unsafe struct M { public delegate*<void> A; }", "MFQ0002 'M.A' is delegate*<void>")]
    [InlineData("struct I { public nuint A; } struct M { public I B; }", "MFQ0002 'I.A' is nuint")]
    [InlineData("struct M { public nint? A; }", "MFQ0002 'M.A' is nint")]
    [InlineData("struct M { public long Id; public string Name; }", "MFQ0003 'M.Name' is string")]
    [InlineData("struct M { public int[] Numbers { get; set; } }", "MFQ0003 'M.Numbers' is int[]")]
    [InlineData("[StructLayout(LayoutKind.Auto)] struct M { public int A; }", "MFQ0004 'M' is M")]
    [InlineData("struct M { public (int, int) Pair; }", "MFQ0004 'M.Pair' is (int, int)")]
    [InlineData("struct M { public DateTimeOffset Time; }", "MFQ0004 'M.Time' is System.DateTimeOffset")]
    [InlineData("struct M { public bool Flag; }", "MFQ0005 'M.Flag' is a bool")]
    [InlineData("record struct M(char Letter);", "MFQ0006 'M.Letter' is a char")]
    [InlineData("unsafe struct M { public fixed char Letters[4]; }", "MFQ0006 'M.Letters' is a char")]
    [InlineData("record struct M(decimal Price);", "MFQ0007 'M.Price' is a decimal")]
    [InlineData("record struct M(DateTime Time);", "MFQ0008 'M.Time' is a DateTime")]
    public async Task Struct_WithSomethingToSay_IsFound(string declaration, string expected)
    {
        using AnalyzedProgram program = new($"class Use {{ MappedFileQueue<M>? _queue; }} {declaration}");
        string found = Assert.Single(await program.FindingsAsync());
        Assert.StartsWith(expected, found, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("record struct M(int A, float B);")]
    [InlineData("record struct M(long A, double B, int C, short D, byte E, sbyte F);")]
    [InlineData("record struct M(TimeSpan Time, Guid Id, int A, DayOfWeek Day);")]
    [InlineData("record struct M(long? A, int? B, DateOnly C, int D);")]
    [InlineData("[StructLayout(LayoutKind.Sequential, Pack = 1)] record struct M(int A, double B);")]
    [InlineData("[StructLayout(LayoutKind.Sequential, Size = 64)] record struct M(long A);")]
    [InlineData("[StructLayout(LayoutKind.Explicit)] struct M { [FieldOffset(0)] public int A; [FieldOffset(8)] public int B; }")]
    [InlineData("[InlineArray(6)] struct Six { public byte First; } struct M { public short A; public Six B; }")]
    [InlineData("unsafe struct M { public long A; public fixed byte B[8]; public static string? C; const string D = \"\"; }")]
    [InlineData("enum Small : byte { One } struct M { public Small A; public byte B; }")]
    public async Task Struct_WithNothingToSay_IsNotFound(string declaration)
    {
        using AnalyzedProgram program = new($"class Use {{ MappedFileQueue<M>? _queue; }} {declaration}");
        Assert.Empty(await program.FindingsAsync());
    }

    /// <summary>Each place where a struct of a queue is written down, and none where it is something else.</summary>
    [Theory]
    [InlineData("object F() => new MappedFileQueue<M>(new() { StorePath = \"m\" });", true)]
    [InlineData("object F() => MappedFileQueue.Create<M>(new() { StorePath = \"m\" });", true)]
    [InlineData("MappedFileProducer<M>? _f;", true)]
    [InlineData("MappedFileConsumer<M>? _f;", true)]
    [InlineData("MappedFileGroupMember<M>? _f;", true)]
    [InlineData("MappedFileReader<M>? _f;", true)]
    [InlineData("IMappedFileProducer<M>? _f;", true)]
    [InlineData("IMappedFileConsumer<M>? _f;", true)]
    [InlineData("TemporaryQueue<M>? _f;", true)]
    [InlineData("void F(IServiceCollection services) => services.AddMappedFileQueue<M>(\"m\");", true)]
    [InlineData("JsonMessageSerializer<M>? _f;", false)]
    [InlineData("System.Collections.Generic.List<M>? _f;", false)]
    [InlineData("void F<T>(MappedFileQueue<T> queue) where T : unmanaged { }", false)]
    public async Task Use_OfAQueue_IsSeen(string member, bool isSeen)
    {
        using AnalyzedProgram program = new(
            $"#pragma warning disable CS0169\npartial class Use {{ {member} }} struct M {{ public bool Flag; }}");
        CSharpCompilation compilation = await program.CompileAsync();
        Assert.DoesNotContain(compilation.GetDiagnostics(), found => found.Severity == DiagnosticSeverity.Error);
        Assert.Equal(isSeen ? 1 : 0, (await program.FindingsAsync()).Length);
    }

    /// <summary>What is an error is refused by the compiler or by the constructor of the queue; what is not works.</summary>
    [Theory]
    [InlineData("public struct M { public nint B; }")]
    [InlineData("public struct M { public nint? A; }")]
    [InlineData("public struct M { public string A; }")]
    [InlineData("public struct M { public (int, int) A; public DateTime B; public DateTimeOffset C; public decimal D; }")]
    [InlineData("[StructLayout(LayoutKind.Auto)] public struct M { public char A; public int B; }")]
    public async Task Error_Struct_IsRefusedByTheQueue(string declaration)
    {
        using AnalyzedProgram program = new(
            $"#pragma warning disable CS0649, CS0169\npublic class Use {{ MappedFileQueue<M>? _queue; }} {declaration}");
        bool isError = (await program.AnalyzeAsync()).Any(found => found.Severity == DiagnosticSeverity.Error);
        bool isRefused = (await program.CompileAsync()).GetDiagnostics().Any(found => found.Id == "CS8377");
        if (!isRefused)
        {
            Exception? error = await Record.ExceptionAsync(() => program.LayoutAsync("M"));
            isRefused = error?.InnerException is ArgumentException;
            Assert.True(isRefused || error is null, error?.ToString());
        }

        Assert.Equal(isRefused, isError);
    }

    /// <summary>The sizes are those of the runtime.</summary>
    [Theory]
    [InlineData("struct M { public byte A; public long B; public byte C; }")]
    [InlineData("struct M { public byte A; public decimal B; public Guid C; public byte D; }")]
    [InlineData("struct M { public byte A; public Int128 B; }")]
    [InlineData("struct M { public byte A; public long? B; public short? C; public Half D; }")]
    [InlineData("[StructLayout(LayoutKind.Sequential, Pack = 2)] struct M { public byte A; public long B; public byte C; }")]
    [InlineData("[StructLayout(LayoutKind.Sequential, Size = 13)] struct M { public int A; public long B; }")]
    [InlineData("[StructLayout(LayoutKind.Sequential, Size = 21)] struct M { public long A; public int B; }")]
    [InlineData("[StructLayout(LayoutKind.Explicit)] struct M { [FieldOffset(4)] byte A; [FieldOffset(8)] int B; }")]
    [InlineData("[StructLayout(LayoutKind.Explicit)] struct M { [FieldOffset(0)] long A; [FieldOffset(8)] int B; }")]
    [InlineData("struct I { public byte A; public int B; } struct M { public byte A; public I B; public short C; }")]
    [InlineData("[InlineArray(3)] struct Three { public int First; } struct M { public byte A; public Three B; }")]
    [InlineData("unsafe struct M { public byte A; public fixed int B[3]; public byte C; }")]
    [InlineData("struct M { }")]
    [InlineData("record struct M(byte A, DateTime B, TimeOnly C, DateOnly D, System.Text.Rune E, byte F);")]
    [InlineData("record struct M(byte A, System.Numerics.Vector3 B, System.Numerics.Complex C, Range D, Index E);")]
    public async Task Size_OfALayout_IsTheRuntimes(string declaration)
    {
        using AnalyzedProgram program = new($"#pragma warning disable CS0649, CS0169\n{declaration}");
        INamedTypeSymbol type = (await program.CompileAsync()).GetTypeByMetadataName("M")!;
        Assert.Equal((await program.LayoutAsync("M")).Size, ManagedLayout.Of(type)!.Size);
    }
}

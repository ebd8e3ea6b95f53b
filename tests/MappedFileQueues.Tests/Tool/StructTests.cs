using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Tool.Structs;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq struct`: a compiler and an interpreter check the sizes and offsets of what it prints, and read the bytes that C# wrote.
/// </summary>
[Trait("Category", "Slow")]
public sealed class StructTests : IDisposable
{
    /// <summary>That of the system has numpy, if any has.</summary>
    private static readonly string s_python = File.Exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";

    private readonly TempStore _temp = new();

    public static TheoryData<string> Types =>
    [
        nameof(Simple), nameof(Everything), nameof(Inner), nameof(Narrow), nameof(Gaps), nameof(Shared), nameof(Empty),
        nameof(Property), "Words",
    ];

    public void Dispose() => _temp.Dispose();

    [Theory]
    [MemberData(nameof(Types))]
    public void C_EachType_IsCompiledAsCAndAsCPlusPlus(string type)
    {
        Assert.SkipUnless(Exists("gcc") && Exists("g++"), "gcc or g++ is not installed.");
        string text = Print(type, "--c");

        string[] strict = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
        Run("gcc", text, [.. strict, "-std=c11", "-Wpedantic", "-x", "c", "-"]);
        Run("g++", text, [.. strict, "-std=c++17", "-x", "c++", "-"]);
    }

    [Theory]
    [MemberData(nameof(Types))]
    public void Python_EachType_Runs(string type)
    {
        Assert.SkipUnless(Exists("python3"), "python3 is not installed.");
        string name = type == "Words" ? "class_" : type;
        string main =
            $$"""

            try:
                import numpy
                dtype = numpy.dtype({{name}}_dtype)
                assert dtype.itemsize == ctypes.sizeof({{name}})
                assert all(getattr({{name}}, name).offset == dtype.fields[name][1] for name in dtype.names)
            except ImportError:
                pass
            """;

        Run(s_python, Print(type, "--python") + main, "-W", "error", "-");
    }

    [Fact]
    public void C_Struct_ReadsTheBytesThatCSharpWrote()
    {
        Assert.SkipUnless(Exists("gcc"), "gcc is not installed.");
        const string Main =
            """
            #include <stdio.h>
            int main(int count, char **names)
            {
                Everything v;
                FILE *file = fopen(names[count - 1], "rb");
                if (!file || fread(&v, sizeof v, 1, file) != 1)
                    return 1;
                printf("%d %u %lld %d %d %d %d %d %g %d\n",
                    v.Flag, v.Letter, (long long)v.Long, v.Numbers[0], v.Numbers[3], v.Three[2].Small,
                    v.Three[2].Large, v.Color, v.Real, v.Maybe.Value);
                return 0;
            }
            """;
        string program = Path.Combine(_temp.Root, "program");
        Run("gcc", Print(nameof(Everything), "--c") + Main, "-std=c11", "-x", "c", "-o", program, "-");

        Assert.Equal(Expected, Run(program, "", WriteEverything()).TrimEnd());
    }

    [Fact]
    public void Python_Struct_ReadsTheBytesThatCSharpWrote()
    {
        Assert.SkipUnless(Exists("python3"), "python3 is not installed.");
        const string Main =
            """

            import sys
            v = Everything.from_buffer_copy(open(sys.argv[1], "rb").read())
            print(v.Flag, v.Letter, v.Long, v.Numbers[0], v.Numbers[3], v.Three[2].Small, v.Three[2].Large,
                  v.Color, "%g" % v.Real, v.Maybe.Value)
            dtype = Everything_dtype
            assert dtype["itemsize"] == ctypes.sizeof(Everything)
            assert [getattr(Everything, name).offset for name in dtype["names"]] == dtype["offsets"]
            """;

        Assert.Equal(Expected, Run(s_python, Print(nameof(Everything), "--python") + Main, "-", WriteEverything()).TrimEnd());
    }

    /// <summary>The sizes are those of the runtime, and padding has a name.</summary>
    [Fact]
    public void Read_Struct_HasItsSizeItsOffsetsAndItsPadding()
    {
        StructShape shape = new ShapeReader().Read(typeof(Simple));

        Assert.Equal(Unsafe.SizeOf<Simple>(), shape.Size);
        Assert.Equal(
            ["A 0", "padding0 1", "B 4", "C 8", "D 16", "padding1 18"],
            shape.WithPadding().Select(field => $"{field.Name} {field.Offset}"));
        Assert.False(shape.IsPacked);
        Assert.True(new ShapeReader().Read(typeof(Narrow)).IsPacked);
        Assert.True(new ShapeReader().Read(typeof(Shared)).IsUnion);
    }

    [Theory]
    [InlineData(nameof(Native), "nint")]
    [InlineData(nameof(Pointer), "At")]
    [InlineData(nameof(Reference), "Text")]
    [InlineData("StructTests", "no such struct")]
    [InlineData("Nowhere.Simple", "no such struct")]
    public void Struct_ThatNoQueueTakes_IsRefused(string type, string named)
    {
        string name = type == nameof(Native) ? "At" : named;
        Command(type, "--c").ExpectError(name);
    }

    [Fact]
    public void Assembly_ThatIsNone_IsRefused()
    {
        ToolRun.Of("struct", Path.Combine(_temp.Root, "missing.dll"), "X", "--c").ExpectError("There is no assembly");
        string file = Path.Combine(_temp.Root, "text.dll");
        File.WriteAllText(file, "no assembly");
        ToolRun.Of("struct", file, "X", "--c").ExpectError("cannot be loaded");
        Assert.Contains("--c or --python", Command(nameof(Simple)).Expect(2).Error, StringComparison.Ordinal);
        Command(nameof(Simple), "--c", "--python").Expect(2);
    }

    private static string Expected => "1 960 -5 11 44 7 70000 2 0.5 9";

    private string WriteEverything()
    {
        Everything[] value = [default];
        value[0].Flag = true;
        value[0].Letter = '\u03c0';
        value[0].Long = -5;
        unsafe
        {
            value[0].Numbers[0] = 11;
            value[0].Numbers[3] = 44;
        }

        value[0].Three[2] = new Inner { Small = 7, Large = 70000 };
        value[0].Color = Color.Blue;
        value[0].Real = 0.5;
        value[0].Maybe = 9;
        string path = Path.Combine(_temp.Root, "bytes");
        File.WriteAllBytes(path, MemoryMarshal.AsBytes(value.AsSpan()));
        return path;
    }

    private static ToolRun Command(string type, params string[] options) =>
        ToolRun.Of(["struct", typeof(StructTests).Assembly.Location, type, .. options]);

    private static string Print(string type, string language)
    {
        string name = type == "Words" ? "StructTests.class" : $"StructTests.{type}";
        return Command(name, language).Expect(0).Text;
    }

    private static bool Exists(string program) => Environment.GetEnvironmentVariable("PATH")!.Split(Path.PathSeparator)
        .Any(folder => File.Exists(Path.Combine(folder, program)));

    private static string Run(string program, string input, params string[] arguments)
    {
        ToolRun run = ToolRun.Start(new ProcessStartInfo(program, arguments), System.Text.Encoding.UTF8.GetBytes(input));
        Assert.True(run.ExitCode == 0, $"{run.Error}\n{input}");
        return run.Text;
    }

#pragma warning disable CS0649 // Nothing assigns to fields whose layout alone is of interest.
    internal enum Color : short
    {
        Red = 1,
        Blue = 2,
    }

    internal struct Simple
    {
        public byte A;
        public int B;
        public double C;
        public short D;
    }

    internal struct Inner
    {
        public byte Small;
        public int Large;
    }

    internal unsafe struct Everything
    {
        public bool Flag;
        public char Letter;
        public long Long;
        public fixed int Numbers[4];
        public ThreeOf Three;
        public Color Color;
        public double Real;
        public float Single;
        public int? Maybe;
        public Guid Id;
        public DateTime Time;
        public decimal Money;
        public (byte, long) Pair;
        public sbyte Signed;
        public ushort Short;
        public uint Unsigned;
        public ulong Large;
    }

    [InlineArray(3)]
    internal struct ThreeOf
    {
        public Inner First;
    }

    [StructLayout(LayoutKind.Sequential, Pack = 1)]
    internal struct Narrow
    {
        public byte A;
        public long B;
        public Inner C;
    }

    [StructLayout(LayoutKind.Explicit, Size = 40)]
    internal struct Gaps
    {
        [FieldOffset(4)]
        public int A;

        [FieldOffset(24)]
        public double B;
    }

    [StructLayout(LayoutKind.Explicit, Size = 12)]
    internal struct Shared
    {
        [FieldOffset(0)]
        public long Whole;

        [FieldOffset(4)]
        public int Half;

        [FieldOffset(4)]
        public byte Low;
    }

    internal struct Empty;

    internal struct Property
    {
        public int Id { get; set; }

        public ThreeOf Three { get; set; }
    }

    internal struct @class
    {
        public int @int;
        public int @lambda;
    }

    internal struct Native
    {
        public nint At;
    }

    internal unsafe struct Pointer
    {
        public int* At;
    }

    internal struct Reference
    {
        public string Text;
    }
}

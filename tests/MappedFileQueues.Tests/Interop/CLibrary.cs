using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The C library with its test program, compiled when a test first asks for it.</summary>
internal static class CLibrary
{
    /// <summary>Warnings are errors, as in C#.</summary>
    private static readonly string[] s_warnings =
        ["-Werror", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wno-unknown-warning-option"];

    private static readonly Lazy<TempStore> s_folder = new(static () =>
    {
        var folder = new TempStore();
        AppDomain.CurrentDomain.ProcessExit += (_, _) => folder.Dispose();
        return folder;
    });

    private static readonly Lazy<string> s_fast = new(static () => Compile("fast", "gcc", ["-std=c11", "-O2"]));

    private static readonly Lazy<string> s_checked = new(static () => Compile(
        "checked", "gcc", ["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", Traps]));

    /// <summary>The detector does not know fences, and says so. Nothing but sleeping depends on one here.</summary>
    private static readonly Lazy<string> s_raced = new(static () => Compile(
        "raced", "gcc", ["-std=c11", "-O1", "-g", "-fsanitize=thread", "-Wno-tsan", Traps]));

    /// <summary>With MFQ_TRAP=STEP:N in the environment the program dies at a step of the library.</summary>
    private const string Traps = "-DMFQ_TEST";

    private static readonly Lazy<string> s_cpp = new(static () => Compile("cpp", "g++", ["-std=c++17", "-O2", "-x", "c++"]));

    private static readonly Lazy<string> s_arm64 = new(
        static () => Compile("arm64", "aarch64-linux-gnu-gcc", ["-std=c11", "-O2", "-static"]));

    private static readonly Lazy<string> s_litmus = new(
        static () => Compile("litmus", "gcc", ["-std=c11", "-O2"], [Repository.PathOf("interop/c/test_litmus.c")]));

    private static readonly Lazy<string> s_shared = new(static () => Path.GetDirectoryName(
        Compile("libmfq.so.2", "gcc", ["-std=c11", "-O2", "-shared", "-fPIC"]))!);

    private static readonly string[] s_fuzzing = ["-std=c11", "-O1", "-g", "-fno-sanitize-recover=all"];

    private static readonly Lazy<string> s_fuzzer = new(static () => HasFuzzing()
        ? Compile("fuzz", "clang", [.. s_fuzzing, "-fsanitize=fuzzer,address,undefined"], "fuzz_reader.c")
        : Compile("fuzz", "gcc", [.. s_fuzzing, "-DMFQ_BLIND", "-fsanitize=address,undefined"], "fuzz_reader.c"));

    /// <summary>The folder of the library that other languages load.</summary>
    public static string SharedFolder => Get(s_shared, "gcc");

    /// <summary>The test program as users would compile it.</summary>
    public static string Fast => Get(s_fast, "gcc");

    /// <summary>The same for arm64.</summary>
    public static string Arm64 => Get(s_arm64, "aarch64-linux-gnu-gcc");

    /// <summary>One side of the tests of memory order.</summary>
    public static string Litmus => Get(s_litmus, "gcc");

    /// <summary>The same with the address and undefined-behaviour sanitizers, which end it at the first mistake.</summary>
    public static string Checked => Get(s_checked, "gcc");

    /// <summary>The same with the race detector, for which all handles of the process see one address for each byte.</summary>
    public static string Raced => Get(s_raced, "gcc");

    /// <summary>The fuzzer over the reader: clang's where it can be had.</summary>
    public static string Fuzzer => Get(s_fuzzer, "gcc");

    /// <summary>The same as C++.</summary>
    public static string AsCpp => Get(s_cpp, "g++");

    /// <summary>Starts <see cref="Checked"/> so that it kills itself when it comes to a step for the N-th time.</summary>
    public static ChildProcess StartTrapped(string step, int hit, params IEnumerable<string> arguments) =>
        StartWithTrap(string.Create(CultureInfo.InvariantCulture, $"{step}:{hit}"), arguments);

    /// <summary>The same, but it stops there.</summary>
    public static ChildProcess StartStopping(string step, int hit, params IEnumerable<string> arguments) =>
        StartWithTrap(string.Create(CultureInfo.InvariantCulture, $"{step}:{hit}:stop"), arguments);

    /// <summary>Starts a test program.</summary>
    public static ChildProcess Start(string program, params IEnumerable<string> arguments) =>
        ChildProcess.Start(new ProcessStartInfo(program, arguments));

    private static ChildProcess StartWithTrap(string trap, IEnumerable<string> arguments) => ChildProcess.Start(
        new ProcessStartInfo(Checked, arguments), new Dictionary<string, string> { ["MFQ_TRAP"] = trap });

    private static string Get(Lazy<string> program, string compiler)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The C library is for Linux");
        Assert.SkipUnless(InteropTools.Has(compiler), $"{compiler} is not installed");
        return program.Value;
    }

    /// <summary>Clang may be there without the library of its fuzzer.</summary>
    private static bool HasFuzzing()
    {
        if (!InteropTools.Has("clang"))
            return false;
        string source = Path.Combine(s_folder.Value.Root, "probe.c");
        File.WriteAllText(source, "int LLVMFuzzerTestOneInput(const char *data, unsigned long size);\n"
            + "int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return data == 0 && size > 0; }\n");
        using ChildProcess run = ChildProcess.Start(
            new ProcessStartInfo("clang", ["-fsanitize=fuzzer,address", source, "-o", $"{source}.out"]));
        return run.WaitForExit() == 0;
    }

    private static string Compile(string name, string compiler, string[] options, string test = "test_vectors.c")
    {
        string folder = Repository.PathOf("interop/c");
        return Compile(name, compiler, options,
            [.. Directory.GetFiles(folder, "mfq*.c"), $"{folder}/{test}", $"{folder}/test_stores.c"]);
    }

    private static string Compile(string name, string compiler, string[] options, string[] sources)
    {
        string program = Path.Combine(s_folder.Value.Root, name);
        using ChildProcess run = ChildProcess.Start(
            new ProcessStartInfo(compiler, [.. options, .. s_warnings, .. sources, "-pthread", "-o", program]));
        // The fuzzer's build takes long on a busy machine.
        run.ExpectExit(deadline: TimeSpan.FromMinutes(6));
        return program;
    }
}

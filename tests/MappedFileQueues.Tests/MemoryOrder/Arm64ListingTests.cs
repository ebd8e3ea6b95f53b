using System.Diagnostics;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.MemoryOrder;

/// <summary>
/// x64 hides a missing release or acquire, arm64 does not, and arm64 code cannot be run on the machines that build this.
/// So the optimised core is compiled for arm64 and the listing is read: each pair of docs/DESIGN.md has its ordered
/// instruction on both sides (`stlr` release, `ldar` acquire, `casal`/`swpal` full; Interlocked.Add is a call of the
/// framework's, which is full by contract).
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class Arm64ListingTests
{
    private static readonly Lazy<IReadOnlyDictionary<string, string>> s_listing = new(Compile);

    public static TheoryData<string, string, string> Pairs => new()
    {
        { "P1", "ExclusiveAppender:Append", @"stlr\s+x" },
        { "P1", "ExclusiveAppender:Publish", @"stlr\s+x" },
        { "P1", "ExclusiveAppender:Publish", "swpal" },
        { "P1", "LogReader:TryCopyFixed", @"ldap?u?r\s+x" },
        { "P1", "LogReader:TryReadInPlace", @"ldap?u?r\s+x" },
        { "P1", "LogReader:Read(", @"ldap?u?r\s+x" },
        { "P2", "SharedAppender:Append", "casal.*casal" },
        { "P2", "SharedAppender:TryClaimFrames", "casal" },
        { "P3", "SharedAppender:Publish", "casal" },
        { "P4", "ClaimRepair:Abandon", "casal" },
        { "P4", "SegmentRoller:TryPadRest", "casal" },
        { "P4", "SegmentRoller:TryStepOver", @"ldap?u?r\s+x" },
        { "P7", "ExclusiveAppender:Append", @"stlr\s+w.*stlr\s+(w|x)" },
        { "P7", "LogAppender:RecheckDisposed", "dmb" },
        { "P7", "LaneDrain:AwaitCall", @"ldap?u?r\s+w" },
        { "P7", "SingleCaller:get_IsInCall", @"ldap?u?r\s+w" },
        { "P8", "ProducerAdmission:Prepare", "casal" },
        { "P9", "WakeSignal:Raise", "casal" },
        { "P9", "ExclusiveAppender:Append", @"stlr\s+x.*ldap?u?r\s+x" },
        { "P9", "SharedAppender:Append", @"casal.*ldap?u?r\s+x" },
        { "P9", "WakeSignal:WakeIfAwaited", @"ldap?u?r\s+x" },
        { "P10", "WakeSignal:Wake(", "casal" },
        { "P10", "WakeSignal:Raise", @"ldap?u?r\s+x" },
        { "P11", "WakeSignal:Poison", "casal" },
        { "P12", "SlotTable:Take", @"ldap?u?r\s+w.*stlr\s+w" },
        { "P12", "SlotTable:Generation", @"ldap?u?r\s+w" },
        { "P15", "LogConsumer:StoreCursor|LogConsumer:Commit", @"stlr\s+x" },
        { "P15", "CursorFile:get_Offset", @"ldap?u?r\s+x" },
        { "P16", "SegmentRoller:MapAt", @"ldap?u?r\s+x" },
        { "P17", "ProducerAdmission:Prepare", @"stlr\s+x" },
        { "P18", "LogStore:get_ConfirmedOffset", @"ldap?u?r\s+x" },
        { "P19", "FlushEngine:Confirm(", @"stlr\s+x" },
        { "P24", "FlushEngine:ReleaseLead", "swpal" },
        { "P24", "FlushEngine:Follow|FlushEngine:WaitFor(", @"ldap?u?r\s+w" },
        { "P20", "BlockAllocator:TryEnsureAllocated", @"ldap?u?r\s+x" },
        { "P20", "SharedWord:RaiseTo", "casal" },
        { "P21", "SegmentMaker:EnsureDirectoryFlushed", @"ldap?u?r\s+x" },
    };

    [Theory]
    [MemberData(nameof(Pairs))]
    public void Core_CompiledForArm64_HasTheOrderedInstruction(string pair, string method, string instructions)
    {
        Assert.SkipUnless(IsCompilerHere, "the compiler for arm64 runs on x64 Linux only, and may be missing there");

        string[] wanted = method.Split('|');
        string code = string.Join('\n', s_listing.Value
            .Where(entry => wanted.Any(name => entry.Key.Contains($".{name}", StringComparison.Ordinal)))
            .Select(entry => entry.Value));

        Assert.True(code.Length > 0, $"{pair}: no listing of {method}");
        Assert.Matches(new Regex(instructions, RegexOptions.Singleline), code);
    }

    private static bool IsCompilerHere =>
        OperatingSystem.IsLinux() && RuntimeInformation.OSArchitecture == Architecture.X64
            && File.Exists(Metadata("CrossCompiler"));

    private static Dictionary<string, string> Compile()
    {
        string core = Repository.PathOf("src/MappedFileQueues/obj/Release/net10.0/MappedFileQueues.dll");
        using var folder = new TempStore();
        string listing = Path.Combine(folder.Root, "listing.txt");
        var start = new ProcessStartInfo(Metadata("CrossCompiler"))
        {
            ArgumentList =
            {
                core, "-o", Path.Combine(folder.Root, "out.dll"), "--targetos:linux", "--targetarch:arm64", "-O",
                "--instruction-set:lse", "--parallelism:1", "-r", Path.Combine(Metadata("Framework"), "*.dll"),
                "--codegenopt:JitDisasm=MappedFileQueues.*:*", $"--codegenopt:JitStdOutFile={listing}",
            },
            RedirectStandardOutput = true,
        };
        using Process compiler = Process.Start(start)!;
        compiler.StandardOutput.ReadToEnd();
        compiler.WaitForExit();
        Assert.Equal(0, compiler.ExitCode);
        var methods = new Dictionary<string, string>();
        foreach (string text in File.ReadAllText(listing).Split("; Assembly listing for method ").Skip(1))
            methods[text[..text.IndexOf('\n')]] = OrderedInstructions(text);
        return methods;
    }

    /// <summary>Only instructions count, not the listing's comments.</summary>
    private static string OrderedInstructions(string text) =>
        string.Join('\n', Instruction().Matches(text).Select(match => match.Value.Trim()));

    private static string Metadata(string key) => typeof(Arm64ListingTests).Assembly
        .GetCustomAttributes<AssemblyMetadataAttribute>().Single(data => data.Key == key).Value!;

    [GeneratedRegex(@"^\s+(ldar|ldapr|ldapur|stlr|stlur|casal|swpal|ldaddal|dmb)\b.*$", RegexOptions.Multiline)]
    private static partial Regex Instruction();
}

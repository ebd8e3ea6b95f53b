using System.Globalization;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Text;

namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// A few seconds of each part of the crash laboratory, and that it finds what it must; `.ci/run` gives it more, a long run is
/// one command (docs/DURABILITY.md, "The laboratory").
/// </summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed class CrashLabTests(ITestOutputHelper output)
{
    private const int ExitViolation = 1;

    /// <summary>
    /// The laboratory is to find a mistake in 19 of 20 fresh seeds, so one seed alone would fail this suite now and then
    /// (ReusedNotCleared did).
    /// </summary>
    private const int SeedsMax = 3;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(4);

    [Theory]
    [InlineData("cut", "--images", "200")]
    [InlineData("retain", "--images", "200")]
    [InlineData("kill", "--runs", "1")]
    [InlineData("fault", "--runs", "2")]
    [InlineData("hostile", "--runs", "1")]
    [InlineData("real-cut", "--runs", "1")]
    [InlineData("append", "--runs", "3")]
    [InlineData("pack", "--images", "2000")]
    public void Run_ShortBudget_FindsNothing(string part, string budget, string amount)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The laboratory runs on Linux only");
        using ChildProcess lab = Start(part, budget, amount);
        int code = lab.WaitForExit(s_limit);
        Assert.True(code == 0, string.Join('\n', lab.Lines.Take(40)));
    }

    [Theory]
    [InlineData("cut", "NoFlush")]
    [InlineData("cut", "RestNotZeroed")]
    [InlineData("cut", "DirectoryNotFlushed")]
    [InlineData("retain", "LowWaterNotRecorded")]
    [InlineData("retain", "MappedSegmentRecycled")]
    [InlineData("fault", "PoisonNotShared")]
    [InlineData("kill", "SilentRepair")]
    [InlineData("append", "AppendNotFlushed")]
    [InlineData("append", "ReusedNotCleared")]
    [InlineData("append", "ZeroTailKept")]
    [InlineData("append", "RoomNotMarked")]
    public void Run_PlantedFault_FindsIt(string part, string fault)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The laboratory runs on Linux only");
        bool isFound = false;
        for (int i = 0; i < SeedsMax && !isFound; i++)
        {
            using ChildProcess lab = Start(part, "--planted", fault, "--stop-at-first");
            isFound = lab.WaitForExit(s_limit) == ExitViolation;
            Assert.Equal(isFound, lab.Lines.Any(line => line.StartsWith("VIOLATION", StringComparison.Ordinal)));
        }

        Assert.True(isFound, $"not found with {SeedsMax} seeds");
    }

    /// <summary>Neither a type nor a word of the planted mistakes is in the assembly that users get.</summary>
    [Fact]
    public void ReleaseAssembly_All_HoldsNothingPlanted()
    {
        string path = Repository.PathOf("src/MappedFileQueues/bin/Release/net10.0/MappedFileQueues.dll");
        byte[] bytes = File.ReadAllBytes(path);
        using var reader = new PEReader(new MemoryStream(bytes));
        MetadataReader metadata = reader.GetMetadataReader();
        IEnumerable<string> names =
            metadata.TypeDefinitions.Select(type => metadata.GetString(metadata.GetTypeDefinition(type).Name))
            .Concat(metadata.MethodDefinitions.Select(method => metadata.GetString(metadata.GetMethodDefinition(method).Name)))
            .Concat(metadata.FieldDefinitions.Select(field => metadata.GetString(metadata.GetFieldDefinition(field).Name)));

        Assert.DoesNotContain(names, name => name.Contains("Planted", StringComparison.OrdinalIgnoreCase));
        Assert.True(bytes.AsSpan().IndexOf("SegmentMaker"u8) >= 0, "the names of this assembly's types are what was searched");
        Assert.True(bytes.AsSpan().IndexOf("Planted"u8) < 0, "the word is nowhere in the file");
        Assert.True(bytes.AsSpan().IndexOf(Encoding.Unicode.GetBytes("Planted")) < 0, "nor is it in a string");
    }

    private ChildProcess Start(string part, params string[] more)
    {
        string seed = (Environment.TickCount & int.MaxValue).ToString(CultureInfo.InvariantCulture);
        output.WriteLine($"--only {part} --seed {seed} {string.Join(' ', more)}");
        return ChildProcess.Start(Repository.CrashLabPath, ["--only", part, "--seed", seed, "--jobs", "1", .. more]);
    }
}

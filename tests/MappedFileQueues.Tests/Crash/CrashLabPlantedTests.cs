using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Text;

namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// The crash laboratory finds the mistakes that it must find. Nothing is measured here, so other tests may run beside it: it
/// waits ten seconds for a consumer that nobody wakes.
/// </summary>
[Trait("Category", "Slow")]
public sealed class CrashLabPlantedTests(ITestOutputHelper output)
{
    private const int ExitViolation = 1;

    /// <summary>
    /// The laboratory is to find a mistake in 19 of 20 fresh seeds, so one seed alone would fail this suite now and then
    /// (ReusedNotCleared did).
    /// </summary>
    private const int SeedsMax = 3;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(4);

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
            using ChildProcess lab = CrashLabRun.Start(output, part, "--planted", fault, "--stop-at-first");
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
}

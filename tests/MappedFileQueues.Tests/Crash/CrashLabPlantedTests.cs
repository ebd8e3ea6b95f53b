using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// The crash laboratory finds the mistakes that it must find. Nothing is measured here, so other tests may run beside it: it
/// waits ten seconds for a consumer that nobody wakes.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CrashLabPlantedTests(ITestOutputHelper output)
{
    private const int ExitViolation = 1;

    /// <summary>
    /// The laboratory is to find a mistake in 19 of 20 fresh seeds, so one seed alone would fail this suite now and then
    /// (ReusedNotCleared did).
    /// </summary>
    private const int SeedsMax = 3;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(8);

    [Theory]
    [InlineData("cut", "NoFlush")]
    [InlineData("cut", "RestNotZeroed")]
    [InlineData("cut", "DirectoryNotFlushed")]
    [InlineData("cut", "IndexAboveConfirmed")]
    [InlineData("cut", "IndexStaleTrusted")]
    [InlineData("cut", "IndexSeriesIgnored")]
    [InlineData("retain", "LogStartNotRecorded")]
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

    /// <summary>In the assembly that users get, no mistake can be switched on: the query is a constant, and nothing can be set.
    /// </summary>
    [Fact]
    public void ReleaseAssembly_PlantedFaults_IsConstant()
    {
        string path = Repository.PathOf("src/MappedFileQueues/bin/Release/net10.0/MappedFileQueues.dll");
        using var reader = new PEReader(File.OpenRead(path));
        MetadataReader metadata = reader.GetMetadataReader();
        TypeDefinition type = Assert.Single(
            metadata.TypeDefinitions.Select(metadata.GetTypeDefinition),
            type => metadata.GetString(type.Name) == nameof(PlantedFaults));
        var bodies = type.GetMethods().Select(metadata.GetMethodDefinition).ToDictionary(
            method => metadata.GetString(method.Name),
            method => reader.GetMethodBody(method.RelativeVirtualAddress).GetILBytes()!);

        Assert.Empty(type.GetFields());
        Assert.Equal(["Has", "get_FirstBlocks"], bodies.Keys.Order(StringComparer.Ordinal));
        Assert.Equal([(byte)ILOpCode.Ldc_i4_0, (byte)ILOpCode.Ret], bodies["Has"]);
        Assert.Equal([(byte)ILOpCode.Ldc_i4_0, (byte)ILOpCode.Conv_i8, (byte)ILOpCode.Ret], bodies["get_FirstBlocks"]);
    }
}

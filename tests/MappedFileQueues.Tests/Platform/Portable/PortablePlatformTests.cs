using System.Runtime.Versioning;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;
using MappedFileQueues.Tests.Platform.Contract;

namespace MappedFileQueues.Tests.Platform.Portable;

/// <summary>The contract, kept by the BCL alone.</summary>
[SupportedOSPlatform("linux")]
[Trait("Category", "Slow")]
public sealed class PortablePlatformTests : PlatformContractTests
{
    private protected override OperatingSystemServices Services { get; } = new PortableServices();

    private protected override OperatingSystemServices Other { get; } =
        OperatingSystem.IsLinux() ? new LinuxServices() : new PortableServices();

    [Fact]
    public void Allocate_BytesKnownToBeAllocated_AreNotEvenLookedAt()
    {
        // A block that an earlier call allocated may get its first message at any time: writing zeros there again would
        // race with it. So a known range must not be written, which the unchanged time of the last write shows.
        using PlatformFile file = NewFile("file", 256 * 1024);
        file.Allocate(0, 128 * 1024);
        DateTime longAgo = new(2001, 2, 3, 4, 5, 6, DateTimeKind.Utc);
        File.SetLastWriteTimeUtc(Temp.PathOf("file"), longAgo);
        file.Allocate(0, 128 * 1024);
        file.Allocate(64 * 1024, 1024);
        Assert.Equal(longAgo, File.GetLastWriteTimeUtc(Temp.PathOf("file")));
        file.Allocate(64 * 1024, 128 * 1024);
        Assert.NotEqual(longAgo, File.GetLastWriteTimeUtc(Temp.PathOf("file")));
    }
}

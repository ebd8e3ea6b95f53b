using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;

namespace MappedFileQueues.Tests.Contract;

/// <summary>Chooses the platform for what this test opens from here on; other tests that run beside it keep theirs.</summary>
internal static class PlatformScope
{
    private static readonly PortableServices s_portable = new();
    private static readonly Lazy<LinuxServices> s_linux = new(() => new LinuxServices());

    /// <summary>For theories: whether the platform is Portable, once for each that this system has.</summary>
    public static TheoryData<bool> Platforms => OperatingSystem.IsLinux() ? [false, true] : [true];

    /// <summary>From here on the Portable platform, or that of Linux.</summary>
    public static void Use(bool portable)
    {
        Assert.SkipUnless(portable || OperatingSystem.IsLinux(), "The Linux platform exists on Linux only.");
        CurrentPlatform.Services = portable ? s_portable : s_linux.Value;
    }
}

using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;

namespace MappedFileQueues.Platform.Choice;

/// <summary>Chooses which of the two implementations this process uses. Any thread.</summary>
internal static class CurrentPlatform
{
    /// <summary>The AppContext switch that selects the portable implementation on Linux too.</summary>
    public const string PortableSwitch = "MappedFileQueues.UsePortablePlatform";

    private static readonly OperatingSystemServices s_chosen = Choose();

    private static readonly AsyncLocal<OperatingSystemServices?> s_override = new();

    /// <summary>
    /// The implementation for this process, chosen once at first use. Tests set another one, only for their own flow of control;
    /// it counts for what is opened afterwards.
    /// </summary>
    public static OperatingSystemServices Services
    {
        get => s_override.Value ?? s_chosen;
        internal set => s_override.Value = value;
    }

    private static OperatingSystemServices Choose() =>
        OperatingSystem.IsLinux() && !(AppContext.TryGetSwitch(PortableSwitch, out bool portable) && portable)
            ? new LinuxServices()
            : new PortableServices();
}

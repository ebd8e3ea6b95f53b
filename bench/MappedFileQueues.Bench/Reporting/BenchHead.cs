using System.Globalization;
using System.Reflection;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Reporting;

/// <summary>Where a figure comes from; without it, it means nothing.</summary>
internal static class BenchHead
{
    public static IReadOnlyList<(string Name, string Value)> Lines(BenchSettings settings) =>
    [
        ("machine", Machine),
        ("kernel", Kernel),
        ("file system", $"{FileSystemOf(settings.Directory)} at {Path.GetFullPath(settings.Directory)}"),
        ("runtime", Runtime),
        ("commit", Commit),
        ("date", DateTime.UtcNow.ToString("yyyy-MM-dd HH:mm 'UTC'", CultureInfo.InvariantCulture)),
        ("run", settings.Work),
    ];

    public static string Machine =>
        $"{ProcessorName()}, {Environment.ProcessorCount} CPUs, {Memory()}, {RuntimeInformation.OSArchitecture}";

    public static string Kernel => KernelName();

    public static string Runtime => RuntimeInformation.FrameworkDescription;

    /// <summary>The version and, after a plus sign, the commit: the build puts it there.</summary>
    public static string Commit =>
        typeof(BenchHead).Assembly.GetCustomAttribute<AssemblyInformationalVersionAttribute>()?.InformationalVersion ?? "unknown";

    public static string FileSystemOf(string directory)
    {
        try
        {
            string full = Path.GetFullPath(directory);
            return DriveInfo.GetDrives()
                .Where(drive => full.StartsWith(drive.Name, StringComparison.Ordinal))
                .MaxBy(drive => drive.Name.Length)?.DriveFormat ?? "unknown";
        }
        catch (Exception exception) when (exception is IOException or UnauthorizedAccessException)
        {
            return "unknown";
        }
    }

    private static string ProcessorName()
    {
        const string Key = "model name";
        if (!File.Exists("/proc/cpuinfo"))
            return Environment.GetEnvironmentVariable("PROCESSOR_IDENTIFIER") ?? "unknown CPU";
        string? line = File.ReadLines("/proc/cpuinfo").FirstOrDefault(line => line.StartsWith(Key, StringComparison.Ordinal));
        return line is null ? "unknown CPU" : line[(line.IndexOf(':') + 1)..].Trim();
    }

    private static string KernelName()
    {
        const string Release = "/proc/sys/kernel/osrelease";
        return File.Exists(Release)
            ? $"{File.ReadAllText(Release).Trim()} ({RuntimeInformation.OSDescription})"
            : RuntimeInformation.OSDescription;
    }

    private static string Memory()
    {
        double gibibytes = GC.GetGCMemoryInfo().TotalAvailableMemoryBytes / (double)(1L << 30);
        return string.Create(CultureInfo.InvariantCulture, $"{gibibytes:F1} GiB");
    }
}

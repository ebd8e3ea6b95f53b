using System.Globalization;
using System.Reflection;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Reporting;

/// <summary>Where a figure comes from; without it, it means nothing.</summary>
internal static class BenchHead
{
    public static IReadOnlyList<(string Name, string Value)> Lines(BenchSettings settings) =>
    [
        ("machine", $"{ProcessorName()}, {Environment.ProcessorCount} CPUs, {Memory()}, {RuntimeInformation.OSArchitecture}"),
        ("kernel", KernelName()),
        ("file system", $"{FileSystemOf(settings.Directory)} at {Path.GetFullPath(settings.Directory)}"),
        ("runtime", RuntimeInformation.FrameworkDescription),
        ("commit", Commit()),
        ("date", DateTime.UtcNow.ToString("yyyy-MM-dd HH:mm 'UTC'", CultureInfo.InvariantCulture)),
        ("run", settings.Work),
    ];

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

    private static string FileSystemOf(string directory)
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

    /// <summary>The build puts the commit behind a plus sign.</summary>
    private static string Commit() =>
        typeof(BenchHead).Assembly.GetCustomAttribute<AssemblyInformationalVersionAttribute>()?.InformationalVersion ?? "unknown";
}

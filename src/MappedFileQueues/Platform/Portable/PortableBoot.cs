using System.ComponentModel;
using System.Diagnostics;
using System.Runtime.Versioning;
using System.Security;
using Microsoft.Win32;

namespace MappedFileQueues.Platform.Portable;

/// <summary>What identifies the running boot, as far as the BCL can tell it.</summary>
internal static class PortableBoot
{
    /// <summary>An id in the form of a Guid; null where nothing is known.</summary>
    public static string? ReadId()
    {
        if (OperatingSystem.IsLinux())
            return ProcFiles.ReadBootId();
        if (OperatingSystem.IsWindows())
            return BootMoment.Of(ReadBootCount(), DateTime.UtcNow, Environment.TickCount64).Stored.ToString();
        return OperatingSystem.IsMacOS() ? ReadSessionId("/usr/sbin/sysctl") : null;
    }

    /// <summary>
    /// The id that the kernel of macOS makes in each boot. The BCL cannot ask for it, so a program of the system does, once in a
    /// process. Null when that fails, as in a sandbox.
    /// </summary>
    internal static string? ReadSessionId(string sysctl)
    {
        const int TimeoutMs = 5000;
        try
        {
            ProcessStartInfo start = new(sysctl, ["-n", "kern.bootsessionuuid"])
            {
                UseShellExecute = false,
                RedirectStandardInput = true,
                RedirectStandardOutput = true,
                RedirectStandardError = true,
            };
            using Process process = Process.Start(start)!;
            process.StandardInput.Close();
            Task<string> text = process.StandardOutput.ReadToEndAsync();
            if (!text.Wait(TimeoutMs) || !process.WaitForExit(TimeoutMs) || process.ExitCode != 0)
                return null;
            return Guid.TryParse(text.Result.Trim(), out Guid id) ? id.ToString() : null;
        }
        catch (Exception error) when (error is Win32Exception or InvalidOperationException or PlatformNotSupportedException
            or AggregateException)
        {
            return null;
        }
    }

    /// <summary>What Windows counts for its own prefetcher; 0 where it does not.</summary>
    [SupportedOSPlatform("windows")]
    private static uint ReadBootCount()
    {
        const string Key =
            @"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
        try
        {
            return Registry.GetValue(Key, "BootId", null) is int count ? unchecked((uint)count) : 0;
        }
        catch (Exception error) when (error is SecurityException or IOException or UnauthorizedAccessException)
        {
            return 0;
        }
    }
}

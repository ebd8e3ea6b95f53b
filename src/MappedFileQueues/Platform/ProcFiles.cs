using System.Globalization;

namespace MappedFileQueues.Platform;

/// <summary>
/// What Linux tells through /proc, read with the BCL alone, so that the portable implementation on Linux gives the same boot id
/// and start times as the other one: both may have the same store open.
/// </summary>
internal static class ProcFiles
{
#if MFQ_STEPS
    /// <summary>Another boot for the tests' child processes: to a store that is a power loss, or a machine that
    /// crashed.</summary>
    private static string? OtherBootId =>
        Environment.GetEnvironmentVariable("MFQ_TEST_BOOT_ID") is { Length: > 0 } other ? other : null;
#else
    private static string? OtherBootId => null;
#endif

    /// <summary>Whether a test has set another boot.</summary>
    public static bool IsOtherBoot => OtherBootId is not null;

    /// <summary>The boot id; null where the system does not tell it.</summary>
    /// <exception cref="QueueDiskException">The process has no descriptor left, or no memory: nothing is known yet.</exception>
    public static string? ReadBootId()
    {
        if (OtherBootId is { } other)
            return other;
        const string Name = "/proc/sys/kernel/random/boot_id";
        try
        {
            return File.ReadAllText(Name).Trim() is { Length: > 0 } text ? text : null;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            // An unknown boot would be taken for another one, and the store for one after a power loss.
            return DiskErrors.IsShortage(error.HResult)
                ? throw DiskErrors.Make("Cannot read the boot id", Name, error.HResult, error.Message.TrimEnd('.'), error)
                : null;
        }
    }

    /// <summary>True if a process is stopped (SIGSTOP, a debugger): no reason to take it for dead.</summary>
    public static bool IsStopped(int processId)
    {
        string? stat = ReadOrNull(string.Create(CultureInfo.InvariantCulture, $"/proc/{processId}/stat"));
        return stat is not null && stat[(stat.LastIndexOf(')') + 1)..].TrimStart().StartsWith('T');
    }

    /// <summary>The start time in clock ticks since boot; 0 when the process is not running, is a zombie, or is hidden.</summary>
    public static long ReadStartTime(int processId)
    {
        if (processId <= 0)
            return 0;
        string? stat = ReadOrNull(string.Create(CultureInfo.InvariantCulture, $"/proc/{processId}/stat"));
        return stat is null ? 0 : ParseStartTime(stat);
    }

    /// <summary>
    /// Field 22 of /proc/PID/stat. The second field is the command name in parentheses, which may itself hold spaces and
    /// parentheses, so counting starts after the last one: the next field is the state, field 3.
    /// </summary>
    internal static long ParseStartTime(string stat)
    {
        string[] fields = stat[(stat.LastIndexOf(')') + 1)..].Split(' ', StringSplitOptions.RemoveEmptyEntries);
        const int StartTimeIndex = 22 - 3;
        if (fields.Length <= StartTimeIndex || fields[0] is "Z" or "X" or "x")
            return 0;
        return long.TryParse(fields[StartTimeIndex], CultureInfo.InvariantCulture, out long ticks) ? ticks : 0;
    }

    /// <summary>
    /// How many milliseconds this process's monotonic clock is ahead of the machine's: a container may have a time namespace of
    /// its own. The file is about the children's, which usually is the same one.
    /// </summary>
    public static long ReadMonotonicLead()
    {
        const string Own = "/proc/self/ns/time";
        string? text = ReadOrNull("/proc/self/timens_offsets");
        if (text is null || new FileInfo(Own).LinkTarget != new FileInfo($"{Own}_for_children").LinkTarget)
            return 0;
        // The first line: "monotonic", seconds, nanoseconds.
        string[] fields = text.Split([' ', '\n'], StringSplitOptions.RemoveEmptyEntries);
        return fields.Length > 2 && long.TryParse(fields[1], CultureInfo.InvariantCulture, out long seconds)
            && long.TryParse(fields[2], CultureInfo.InvariantCulture, out long nanoseconds)
            ? (seconds * 1000) + (nanoseconds / 1_000_000)
            : 0;
    }

    /// <summary>The text of a file below /proc; null when there is none or it may not be read.</summary>
    internal static string? ReadOrNull(string path)
    {
        try
        {
            return File.ReadAllText(path);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }
}

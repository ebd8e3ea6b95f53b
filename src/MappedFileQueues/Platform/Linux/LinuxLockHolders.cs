using System.Globalization;
using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>
/// Finds the holders of a lock in /proc/locks. A line reads "1: FLOCK  ADVISORY  WRITE 1234 fe:01:98765 0 EOF": the device of the
/// file system in hex, then the inode. It serves messages only; no decision depends on a process id.
/// </summary>
internal static class LinuxLockHolders
{
    /// <summary>The system returns a table in pieces of at most a page.</summary>
    private const int PieceLength = 4096;

    /// <summary>
    /// How often a table of several pieces is read. If locks come and go between two pieces, the lines move and one is missed (in
    /// one read of 200, when the lines of half a table of 400 come and go). A read of 2,000 lines takes 5 ms.
    /// </summary>
    private const int LooksMax = 3;

    /// <summary>The process ids, each once.</summary>
    public static IReadOnlyList<int> Find(LinuxHandle file, FileIdentity identity)
    {
        // btrfs and overlay give each file its own device in stat, while /proc/locks prints the device of the whole file system,
        // which the mount table knows.
        string? mounted = MountDevice(file);
        List<int> holders = [];
        for (int look = 0; look < LooksMax; look++)
        {
            string locks = ProcFiles.ReadOrNull("/proc/locks") ?? "";
            holders.AddRange(Parse(locks, identity.Inode, IsDevice));
            if (locks.Length < PieceLength)
                break;
        }

        return [.. holders.Distinct()];

        bool IsDevice(ulong device) => device == identity.Device || device == ParseDevice(mounted, hex: false);
    }

    /// <summary>The holders of an inode on one of the accepted devices (major in the upper half).</summary>
    internal static List<int> Parse(string locks, ulong inode, Func<ulong, bool> isDevice)
    {
        List<int> holders = [];
        string end = string.Create(CultureInfo.InvariantCulture, $":{inode}");
        foreach (string line in locks.Split('\n'))
        {
            // Most of a long table is about other files.
            if (!line.Contains(end, StringComparison.Ordinal))
                continue;
            // A waiting request has "->" after the number; it holds nothing.
            string[] fields = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            if (fields.Length < 6 || fields[1] != "FLOCK" || !fields[5].EndsWith(end, StringComparison.Ordinal))
                continue;
            // Process ids of other namespaces are shown as 0 or -1.
            if (ParseDevice(fields[5][..^end.Length], hex: true) is ulong device && isDevice(device)
                && int.TryParse(fields[4], CultureInfo.InvariantCulture, out int processId) && processId > 0
                && !holders.Contains(processId))
                holders.Add(processId);
        }

        return holders;
    }

    private static ulong? ParseDevice(string? text, bool hex)
    {
        string[] parts = text?.Split(':') ?? [];
        NumberStyles style = hex ? NumberStyles.AllowHexSpecifier : NumberStyles.None;
        return parts.Length == 2
            && uint.TryParse(parts[0], style, CultureInfo.InvariantCulture, out uint major)
            && uint.TryParse(parts[1], style, CultureInfo.InvariantCulture, out uint minor)
                ? ((ulong)major << 32) | minor
                : null;
    }

    /// <summary>"major:minor" of the file system that an open file is on; null when /proc does not tell.</summary>
    private static string? MountDevice(LinuxHandle file)
    {
        string? info = ProcFiles.ReadOrNull(string.Create(CultureInfo.InvariantCulture, $"/proc/self/fdinfo/{file.Number}"));
        const string Label = "mnt_id:";
        string? row = info?.Split('\n').FirstOrDefault(line => line.StartsWith(Label, StringComparison.Ordinal));
        string? mount = row?[Label.Length..].Trim();
        string? table = mount is null ? null : ProcFiles.ReadOrNull("/proc/self/mountinfo");
        IEnumerable<string[]>? entries = table?.Split('\n').Select(line => line.Split(' '));
        return entries?.FirstOrDefault(entry => entry[0] == mount && entry.Length > 2)?[2];
    }
}

using System.Buffers;
using System.Globalization;
using System.Text;
using MappedFileQueues.Platform.Linux.Calls;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Platform.Linux;

/// <summary>
/// Finds the holders of a lock in /proc/locks. A line reads "1: FLOCK  ADVISORY  WRITE 1234 fe:01:98765 0 EOF": the device of the
/// file system in hex, then the inode. It serves messages only; no decision depends on a process id.
/// </summary>
internal static class LinuxLockHolders
{
    /// <summary>Longer than any line. What has left room for one more was the whole table.</summary>
    private const int LineMax = 128;

    /// <summary>How often a table is read that changes all the time. A read of 2,000 lines takes 5 ms.</summary>
    private const int LooksMax = 6;

    /// <summary>
    /// How much a look asks for at once; the system returns whole lines, at most a page of them. If locks come and go between
    /// two pieces, the lines move and one is missed. With pieces of one length it would be the same line each time.
    /// </summary>
    private static readonly int[] s_pieces = [4096, 3100, 2500];

    /// <summary>The ids of the processes that hold each of the files, each id once.</summary>
    /// <param name="folder">The folder of the files.</param>
    /// <param name="files">The files; null for one that is missing.</param>
    public static IReadOnlyList<int>[] Find(LinuxHandle folder, ReadOnlySpan<FileIdentity?> files)
    {
        // btrfs and overlay give each file its own device in stat, while /proc/locks prints the device of the whole file system,
        // which the mount table knows. On others the table is not read.
        Lazy<ulong?> mounted = new(() => ParseDevice(MountDevice(folder), hex: false), isThreadSafe: false);
        List<int>[] holders = new List<int>[files.Length];
        for (int i = 0; i < holders.Length; i++)
            holders[i] = [];
        byte[] table = ArrayPool<byte>.Shared.Rent(4 * s_pieces[0]);
        byte[] before = ArrayPool<byte>.Shared.Rent(4 * s_pieces[0]);
        int lengthBefore = 0;
        try
        {
            for (int look = 0; look < LooksMax; look++)
            {
                int piece = s_pieces[look % s_pieces.Length];
                ReadOnlySpan<byte> locks = ReadTable(ref table, piece);
                for (int i = 0; i < holders.Length; i++)
                {
                    if (files[i] is { } file)
                        AddHolders(locks, file.Inode, device => device == file.Device || device == mounted.Value, holders[i]);
                }

                // One piece is a moment's table. Two looks that are alike, in pieces of two lengths, have missed nothing.
                if (locks.Length < piece - LineMax || locks.SequenceEqual(before.AsSpan(0, lengthBefore)))
                    break;
                lengthBefore = locks.Length;
                (table, before) = (before, table);
            }
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(table);
            ArrayPool<byte>.Shared.Return(before);
        }

        return holders;
    }

    /// <summary>
    /// Adds the holders of an inode on one of the accepted devices (major in the upper half), those that are not there yet.
    /// </summary>
    internal static void AddHolders(ReadOnlySpan<byte> locks, ulong inode, Func<ulong, bool> isDevice, List<int> holders)
    {
        string file = string.Create(CultureInfo.InvariantCulture, $":{inode} ");
        byte[] sought = Encoding.ASCII.GetBytes(file);
        int place;
        // Most of a long table is about other files.
        while ((place = locks.IndexOf(sought)) >= 0)
        {
            int start = locks[..place].LastIndexOf((byte)'\n') + 1;
            place += sought.Length;
            // A waiting request has "->" after the number; it holds nothing.
            string[] fields = Encoding.ASCII.GetString(locks[start..place]).Split(' ', StringSplitOptions.RemoveEmptyEntries);
            // Process ids of other namespaces are shown as 0 or -1.
            if (fields.Length == 6 && fields[1] == "FLOCK"
                && ParseDevice(fields[5][..^(file.Length - 1)], hex: true) is ulong device && isDevice(device)
                && int.TryParse(fields[4], CultureInfo.InvariantCulture, out int processId) && processId > 0
                && !holders.Contains(processId))
                holders.Add(processId);
            locks = locks[place..];
        }
    }

    /// <summary>Reads all of it into the array, or a longer one; empty when it cannot be read.</summary>
    private static ReadOnlySpan<byte> ReadTable(ref byte[] buffer, int piece)
    {
        try
        {
            using SafeFileHandle file = File.OpenHandle("/proc/locks");
            int length = 0;
            while (RandomAccess.Read(file, buffer.AsSpan(length, piece), length) is > 0 and int read)
            {
                length += read;
                if (buffer.Length - length >= piece)
                    continue;
                byte[] longer = ArrayPool<byte>.Shared.Rent(buffer.Length * 2);
                buffer.AsSpan(0, length).CopyTo(longer);
                ArrayPool<byte>.Shared.Return(buffer);
                buffer = longer;
            }

            return buffer.AsSpan(0, length);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return default;
        }
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

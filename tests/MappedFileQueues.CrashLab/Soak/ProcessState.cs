using System.Globalization;
using System.Text.RegularExpressions;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>What a process holds at one moment, as the system tells it in /proc.</summary>
/// <param name="OwnMiB">Memory of its own: RssAnon.</param>
/// <param name="MappedMiB">Memory of files that it has mapped and touched: RssFile and RssShmem.</param>
/// <param name="Descriptors">Open descriptors.</param>
/// <param name="Segments">Mappings of the store's segments.</param>
/// <param name="Mappings">All mappings.</param>
/// <param name="Deleted">The files without a name that it keeps on the disk.</param>
internal sealed partial record ProcessState(
    long OwnMiB, long MappedMiB, int Descriptors, int Segments, int Mappings, IReadOnlyCollection<string> Deleted)
{
    private const string DeletedMark = " (deleted)";

    /// <summary>Null when the process has ended.</summary>
    public static ProcessState? Read(int id, string store)
    {
        string folder = string.Create(CultureInfo.InvariantCulture, $"/proc/{id}");
        try
        {
            string status = File.ReadAllText(Path.Combine(folder, "status"));
            string[] maps = File.ReadAllLines(Path.Combine(folder, "maps"));
            string[] targets = [.. Directory.GetFiles(Path.Combine(folder, "fd")).Select(TargetOf)];
            string[] segments = [.. maps.Where(line => line.Contains(store, StringComparison.Ordinal)
                && line.Contains("/commitlog/", StringComparison.Ordinal))];
            IEnumerable<string> deleted = targets.Concat(segments.Select(line => line[line.IndexOf('/')..]))
                .Where(path => path.StartsWith(store, StringComparison.Ordinal)
                    && path.EndsWith(DeletedMark, StringComparison.Ordinal));
            return new ProcessState(
                MiB(status, "RssAnon"), MiB(status, "RssFile") + MiB(status, "RssShmem"), targets.Length, segments.Length,
                maps.Length, deleted.ToHashSet(StringComparer.Ordinal));
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>The larger of each.</summary>
    public ProcessState Max(ProcessState other) => new(
        Math.Max(OwnMiB, other.OwnMiB), Math.Max(MappedMiB, other.MappedMiB), Math.Max(Descriptors, other.Descriptors),
        Math.Max(Segments, other.Segments), Math.Max(Mappings, other.Mappings),
        Deleted.Count > other.Deleted.Count ? Deleted : other.Deleted);

    public override string ToString() => string.Create(CultureInfo.InvariantCulture,
        $"own {OwnMiB} MiB, mapped {MappedMiB} MiB, {Descriptors} descriptors, {Segments} segments in {Mappings} mappings, "
        + $"{Deleted.Count} deleted files");

    /// <summary>A descriptor may be closed while this looks.</summary>
    private static string TargetOf(string descriptor)
    {
        try
        {
            return File.ResolveLinkTarget(descriptor, returnFinalTarget: false)?.FullName ?? "";
        }
        catch (IOException)
        {
            return "";
        }
    }

    private static long MiB(string status, string field)
    {
        Match found = Regex.Match(status, $@"^{field}:\s+(\d+) kB", RegexOptions.Multiline);
        return found.Success ? long.Parse(found.Groups[1].Value, CultureInfo.InvariantCulture) / 1024 : 0;
    }
}

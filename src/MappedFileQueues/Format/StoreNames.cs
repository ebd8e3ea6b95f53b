using System.Globalization;
using System.Runtime.CompilerServices;

namespace MappedFileQueues.Format;

/// <summary>
/// The names of a store's files, relative to its directory. They differ from those of 1.x on purpose: neither version can
/// mistake the other's files for its own.
/// </summary>
internal static class StoreNames
{
    public const string Meta = "queue.meta";

    /// <summary>The name of `queue.meta` while its store is being deleted, and after an interrupted deletion.</summary>
    public const string DeletedMeta = "queue.meta.deleted";

    /// <summary>The name of `queue.meta` while a snapshot is being made here, and after one that was interrupted.</summary>
    public const string UnfinishedSnapshot = "queue.meta.snapshot";

    public const string Control = "control";
    public const string Poison = "poison";
    public const string CommitLog = "commitlog";
    public const string Offsets = "offset";
    public const string Consumers = "offset/consumers";

    /// <summary>Made with the first group.</summary>
    public const string Groups = "offset/groups";

    /// <summary>The files of producers with an id; made with the first of them.</summary>
    public const string Producers = "offset/producers";

    public const string Locks = "locks";
    public const string Salvage = "salvage";
    public const string Checkpoint = "offset/producer.checkpoint";
    public const string OpenLock = "locks/open";
    public const string AttachedLock = "locks/attached";
    public const string ProducersLock = "locks/producers";
    public const string PrepareLock = "locks/prepare";
    public const string FlushLock = "locks/flush";
    public const string Slots = "locks/slots";
    public const string Retention = "retention";

    /// <summary>Two slots like those of the checkpoint: everything before the offset was removed.</summary>
    public const string LogStart = "offset/log-start";

    /// <summary>Numbers and times of messages at places a step apart; only a hint.</summary>
    public const string Index = "offset/index";

    public const string GroupSuffix = ".group";
    public const string SavedGroupSuffix = ".saved";
    private const string SegmentSuffix = ".log";
    private const string SpareSuffix = ".spare";
    private const string CutSuffix = ".cut";
    private const int SegmentDigits = 20;

    /// <summary>The directories of a store, parents first.</summary>
    public static ReadOnlySpan<string> Directories => new[] { CommitLog, Offsets, Consumers, Locks };

    public static string Segment(long startOffset) =>
        $"{CommitLog}/{startOffset.ToString("D20", CultureInfo.InvariantCulture)}{SegmentSuffix}";

    /// <summary>The name of a removed segment until its file is used for another one.</summary>
    public static string Spare(long startOffset) =>
        $"{CommitLog}/{startOffset.ToString("D20", CultureInfo.InvariantCulture)}{SpareSuffix}";

    /// <summary>Whether a file name of `commitlog/` is that of a spare.</summary>
    public static bool IsSpare(string fileName) => fileName.EndsWith(SpareSuffix, StringComparison.Ordinal);

    public static string SlotLock(int slot) => $"{Locks}/slot-{slot.ToString("D4", CultureInfo.InvariantCulture)}";

    public static string Cursor(string consumer) =>
        consumer.Length == 0 ? $"{Offsets}/consumer.cursor" : $"{Consumers}/{consumer.ToLowerInvariant()}.cursor";

    public static string ConsumerLock(string consumer) => $"{Locks}/consumer-{consumer.ToLowerInvariant()}";

    public static string ProducerLock(string id) => $"{Locks}/producer-{id.ToLowerInvariant()}";

    public static string Group(string group) => $"{Groups}/{group.ToLowerInvariant()}{GroupSuffix}";

    /// <summary>What a power loss leaves of a group.</summary>
    public static string SavedGroup(string group) => $"{Groups}/{group.ToLowerInvariant()}{SavedGroupSuffix}";

    /// <summary>Held shared by the group's members, exclusively by whoever removes or resets it.</summary>
    public static string GroupLock(string group) => $"{Locks}/group-{group.ToLowerInvariant()}";

    /// <summary>Held by whoever saves the group.</summary>
    public static string SavedGroupLock(string group) => $"{Locks}/saved-{group.ToLowerInvariant()}";

    /// <summary>Reads the start offset out of a file name of `commitlog/`; false for any other file.</summary>
    public static bool TryParseSegment(string fileName, out long startOffset)
    {
        startOffset = 0;
        return fileName.Length == SegmentDigits + SegmentSuffix.Length
            && fileName.EndsWith(SegmentSuffix, StringComparison.Ordinal)
            && long.TryParse(fileName.AsSpan(0, SegmentDigits), NumberStyles.None, CultureInfo.InvariantCulture, out startOffset);
    }

    /// <summary>The part of a segment that a recovery cut off: where the cut began, and the epoch that began with it.</summary>
    public static string Cut(long segmentStart, long tail, long epoch) => string.Create(
        CultureInfo.InvariantCulture, $"{Salvage}/{segmentStart:D20}-from-{tail:D20}-epoch-{epoch}{CutSuffix}");

    /// <summary>Reads tail and epoch out of a file name of `salvage/`; false for any other file.</summary>
    public static bool TryParseCut(string fileName, out long tail, out long epoch)
    {
        (tail, epoch) = (0, 0);
        string[] parts = fileName.Split('-');
        return parts is [_, "from", _, "epoch", _]
            && long.TryParse(parts[0], NumberStyles.None, CultureInfo.InvariantCulture, out _)
            && parts[4].EndsWith(CutSuffix, StringComparison.Ordinal)
            && long.TryParse(parts[2], NumberStyles.None, CultureInfo.InvariantCulture, out tail)
            && long.TryParse(parts[4].AsSpan(0, parts[4].Length - CutSuffix.Length),
                NumberStyles.None, CultureInfo.InvariantCulture, out epoch);
    }

    /// <summary>The rule for names of consumers, groups and producers, for messages.</summary>
    public const string NameRule = "up to 100 characters of A-Z a-z 0-9 . _ -, and no device of Windows such as con or nul";

    /// <summary>
    /// Names of consumers: 1 to 100 of [A-Za-z0-9._-], compared ignoring case; "" is the default consumer. Not what Windows takes
    /// for a device with any ending, <c>nul.cursor</c> too: a program that runs on Linux runs there.
    /// https://learn.microsoft.com/windows/win32/fileio/naming-a-file
    /// </summary>
    public static bool IsValidConsumer(string name) =>
        name.Length <= 100
            && name.All(c => char.IsAsciiLetterOrDigit(c) || c is '.' or '_' or '-')
            && !IsDevice(name.Split('.')[0]);

    /// <summary>Throws when a name is none.</summary>
    /// <param name="name">The name.</param>
    /// <param name="subject">The beginning of the message, as in "A consumer's name is".</param>
    /// <param name="parameter">The parameter of the caller.</param>
    public static void ThrowIfInvalid(
        string name, string subject, [CallerArgumentExpression(nameof(name))] string? parameter = null)
    {
        ArgumentNullException.ThrowIfNull(name, parameter);
        if (!IsValidConsumer(name))
            throw new ArgumentException($"{subject} {NameRule}: {parameter}=\"{name}\".", parameter);
    }

    private static bool IsDevice(string name) => name.Length switch
    {
        3 => name.ToUpperInvariant() is "CON" or "PRN" or "AUX" or "NUL",
        4 => name[..3].ToUpperInvariant() is "COM" or "LPT" && char.IsAsciiDigit(name[3]),
        _ => false,
    };
}

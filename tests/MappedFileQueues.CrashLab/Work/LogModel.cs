namespace MappedFileQueues.CrashLab.Work;

internal enum EntryState
{
    /// <summary>The call that appends it has not returned: it may be there or not.</summary>
    UnderWay,

    /// <summary>Claimed for filling in place, by a process that lives.</summary>
    Claimed,

    /// <summary>Readable.</summary>
    Published,

    /// <summary>Given up: nobody ever reads it.</summary>
    Abandoned,
}

/// <summary>A message, or a claim, in the order of the log.</summary>
internal sealed class LogEntry(int producer, long number, int length, int unit)
{
    public int Producer => producer;

    public long Number => number;

    public int Length { get; set; } = length;

    /// <summary>Messages of one batch have one unit: all of them are there, or none.</summary>
    public int Unit => unit;

    public EntryState State { get; set; }

    /// <summary>The offset of its header; -1 while nobody has said.</summary>
    public long Offset { get; set; } = -1;

    /// <summary>Whether its frame has a checksum.</summary>
    public bool HasChecksum { get; init; } = true;
}

/// <summary>An entry as it was at the moment of a picture.</summary>
internal readonly record struct EntryPicture(LogEntry Entry, EntryState State, int Length, bool IsAcknowledged);

/// <summary>What the workload knows at the moment of a picture.</summary>
/// <param name="Seed">Of the messages' bytes.</param>
/// <param name="Entries">In the order of the log.</param>
/// <param name="Cursors">All offsets that each consumer has committed, the last one last; one under way is there already.</param>
/// <param name="DurableCursors">The number of a consumer's first commit that a cut may not take back; missing: none.</param>
/// <param name="IsCommitUnderWay">The last offset of a cursor may not be stored yet.</param>
/// <param name="Where">The step or call at which it was taken.</param>
internal sealed record ModelPicture(
    int Seed,
    IReadOnlyList<EntryPicture> Entries,
    IReadOnlyDictionary<string, long[]> Cursors,
    IReadOnlyDictionary<string, int> DurableCursors,
    bool IsCommitUnderWay,
    string Where);

/// <summary>
/// What the log must hold. The workload runs on one thread, so the order in which it begins its appends is the log's.
/// </summary>
internal sealed class LogModel(int seed)
{
    private readonly List<LogEntry> _entries = [];
    private readonly SortedDictionary<string, List<long>> _cursors = new(StringComparer.Ordinal);
    private readonly Dictionary<string, int> _durableCursors = new(StringComparer.Ordinal);
    private int _units;

    public int Seed => seed;

    public IReadOnlyList<LogEntry> Entries => _entries;

    /// <summary>Entries below it were flushed by a call that has returned.</summary>
    public int AcknowledgedCount { get; private set; }

    public bool IsCommitUnderWay { get; set; }

    public int NewUnit() => ++_units;

    public LogEntry Add(LogEntry entry)
    {
        _entries.Add(entry);
        return entry;
    }

    /// <summary>A flush has returned: all that was published when it began is acknowledged.</summary>
    public void Acknowledge(int count) => AcknowledgedCount = Math.Max(AcknowledgedCount, count);

    /// <summary>The last commit of a consumer is on disk.</summary>
    public void CommitDurably(string consumer) => _durableCursors[consumer] = _cursors[consumer].Count - 1;

    public void Commit(string consumer, long offset)
    {
        if (!_cursors.TryGetValue(consumer, out List<long>? history))
            _cursors.Add(consumer, history = []);
        history.Add(offset);
    }

    /// <summary>What was read back from an image becomes the beginning of the next round; all of it is on the medium.</summary>
    public void Restart(IEnumerable<LogEntry> survivors)
    {
        List<LogEntry> kept = [.. survivors];
        _entries.Clear();
        _entries.AddRange(kept);
        _cursors.Clear();
        _durableCursors.Clear();
        AcknowledgedCount = kept.Count;
    }

    /// <param name="confirmed">What the control page says is on disk: a promise to every process.</param>
    /// <param name="where">The moment.</param>
    public ModelPicture Picture(long confirmed, string where)
    {
        var entries = new EntryPicture[_entries.Count];
        for (int i = 0; i < entries.Length; i++)
        {
            LogEntry entry = _entries[i];
            bool isPromised = i < AcknowledgedCount || (entry.Offset >= 0 && entry.Offset < confirmed);
            entries[i] = new EntryPicture(
                entry, entry.State, entry.Length, isPromised && entry.State == EntryState.Published);
        }

        return new ModelPicture(
            seed, entries, _cursors.ToDictionary(pair => pair.Key, pair => pair.Value.ToArray()),
            new Dictionary<string, int>(_durableCursors), IsCommitUnderWay, where);
    }
}

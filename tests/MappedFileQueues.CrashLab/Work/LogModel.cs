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
}

/// <summary>An entry as it was at the moment of a picture.</summary>
internal readonly record struct EntryPicture(LogEntry Entry, EntryState State, int Length, bool IsAcknowledged);

/// <summary>What the workload knows at the moment of a picture.</summary>
/// <param name="Seed">Of the messages' bytes.</param>
/// <param name="Entries">In the order of the log.</param>
/// <param name="Cursors">All offsets that each consumer has committed, the last one last; one under way is there already.</param>
/// <param name="DurableCursors">The number of a consumer's first commit that a cut may not take back; missing: none.</param>
/// <param name="IsCommitUnderWay">The last offset of a cursor may not be stored yet.</param>
/// <param name="Removal">What was removed by then.</param>
/// <param name="RecoveredIn">The boot in which the store was recovered; empty when it is not.</param>
/// <param name="Epoch">Of its offsets.</param>
/// <param name="Where">The step or call at which it was taken.</param>
internal sealed record ModelPicture(
    int Seed,
    IReadOnlyList<EntryPicture> Entries,
    IReadOnlyDictionary<string, long[]> Cursors,
    IReadOnlyDictionary<string, int> DurableCursors,
    bool IsCommitUnderWay,
    RemovalPicture Removal,
    Guid RecoveredIn,
    long Epoch,
    string Where);

/// <summary>What was removed at the moment of a picture.</summary>
/// <param name="Done">All before it, for good.</param>
/// <param name="UnderWay">All before it, perhaps: what the log start is.</param>
/// <param name="LogStarts">Each the log start that there was: a consumer that is dropped continues there.</param>
/// <param name="MayBeDropped">Consumers that moved to what was removed.</param>
internal sealed record RemovalPicture(
    long Done, long UnderWay, IReadOnlySet<long> LogStarts, IReadOnlySet<string> MayBeDropped);

/// <summary>
/// What the log must hold. The workload runs on one thread, so the order in which it begins its appends is the log's.
/// </summary>
internal sealed class LogModel(int seed)
{
    private readonly List<LogEntry> _entries = [];
    private readonly SortedDictionary<string, List<long>> _cursors = new(StringComparer.Ordinal);
    private readonly Dictionary<string, int> _durableCursors = new(StringComparer.Ordinal);
    private readonly HashSet<long> _logStarts = [0];
    private readonly HashSet<string> _mayBeDropped = new(StringComparer.Ordinal);
    private int _units;

    public int Seed => seed;

    public IReadOnlyList<LogEntry> Entries => _entries;

    /// <summary>Entries below it were flushed by a call that has returned.</summary>
    public int AcknowledgedCount { get; private set; }

    public bool IsCommitUnderWay { get; set; }

    /// <summary>All before it was removed, by a removal that has ended.</summary>
    public long LogStart { get; private set; }

    /// <summary>Where each consumer has committed last.</summary>
    public IEnumerable<(string Name, long Offset)> LastCommits => _cursors.Select(pair => (pair.Key, pair.Value[^1]));

    public int NewUnit() => ++_units;

    /// <summary>A removal has ended.</summary>
    public void Remove(long logStart)
    {
        LogStart = logStart;
        _logStarts.Add(logStart);
    }

    /// <summary>Whether a consumer may be dropped, whatever the policy says: it has moved to what was removed.</summary>
    public bool MayBeDropped(string consumer) => _mayBeDropped.Contains(consumer);

    public void LetDrop(string consumer, bool mayBeDropped)
    {
        if (mayBeDropped)
            _mayBeDropped.Add(consumer);
        else
            _mayBeDropped.Remove(consumer);
    }

    /// <summary>The last commit was refused.</summary>
    public void TakeBackCommit(string consumer) => _cursors[consumer].RemoveAt(_cursors[consumer].Count - 1);

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
    public void Restart(IEnumerable<LogEntry> survivors, long oldest)
    {
        List<LogEntry> kept = [.. survivors];
        _entries.Clear();
        _entries.AddRange(kept);
        _cursors.Clear();
        _durableCursors.Clear();
        _mayBeDropped.Clear();
        _logStarts.Clear();
        _logStarts.Add(0);
        Remove(oldest);
        AcknowledgedCount = kept.Count;
    }

    /// <param name="words">What the control page promises to every process.</param>
    /// <param name="where">The moment.</param>
    public ModelPicture Picture(ControlWords words, string where)
    {
        var entries = new EntryPicture[_entries.Count];
        for (int i = 0; i < entries.Length; i++)
        {
            LogEntry entry = _entries[i];
            bool isPromised = i < AcknowledgedCount || (entry.Offset >= 0 && entry.Offset < words.Confirmed);
            entries[i] = new EntryPicture(
                entry, entry.State, entry.Length, isPromised && entry.State == EntryState.Published);
        }

        return new ModelPicture(
            seed, entries, _cursors.ToDictionary(pair => pair.Key, pair => pair.Value.ToArray()),
            new Dictionary<string, int>(_durableCursors), IsCommitUnderWay,
            new RemovalPicture(LogStart, Math.Max(LogStart, words.LogStart),
                new HashSet<long>(_logStarts) { words.LogStart }, new HashSet<string>(_mayBeDropped)),
            words.RecoveredIn, words.Epoch, where);
    }
}

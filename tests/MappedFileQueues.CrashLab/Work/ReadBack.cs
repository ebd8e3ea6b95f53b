namespace MappedFileQueues.CrashLab.Work;

/// <summary>A message as it was read back.</summary>
internal readonly record struct ReadMessage(long Offset, byte[] Bytes);

/// <summary>
/// Holds what was read back from a store against what was written. After a kill everything that was published is there; after
/// a cut a beginning of it, with all that was acknowledged. A batch is there as a whole or not at all, and nothing is there
/// that nobody wrote.
/// </summary>
/// <param name="model">What was known at the moment of the crash.</param>
/// <param name="isCut">A power loss; otherwise all processes were killed.</param>
/// <param name="isExclusive">An open claim is not in the log then.</param>
/// <param name="isSameBoot">What is not there may be missing from the middle, if it was never flushed.</param>
/// <param name="oldest">All before it was removed.</param>
internal sealed class ReadBack(ModelPicture model, bool isCut, bool isExclusive, bool isSameBoot, long oldest)
{
    /// <summary>
    /// Whose messages the offsets are, where the workload has heard of them. Two short messages may have the same bytes: an
    /// append under way was taken for the one behind it, and that one, published, was missing then (seed 61550115).
    /// </summary>
    private readonly Dictionary<long, LogEntry> _ownerAt = model.Entries.Where(entry => entry.Entry.Offset >= 0)
        .GroupBy(entry => entry.Entry.Offset).ToDictionary(entries => entries.Key, entries => entries.Last().Entry);

    /// <summary>The entries that were read, in order; throws when the log is not what it must be.</summary>
    public List<LogEntry> Match(IReadOnlyList<ReadMessage> messages)
    {
        List<LogEntry> matched = [];
        bool hasEnded = false;
        foreach (IGrouping<int, EntryPicture> unit in model.Entries.GroupBy(entry => entry.Entry.Unit))
        {
            bool isRemoved = unit.First().Entry.Offset is >= 0 and var offset && offset < oldest;
            if (unit.First().State is EntryState.Abandoned || isRemoved)
                continue;
            int present = CountPresent(unit, messages, matched.Count);
            bool mayBeThere = !hasEnded && unit.First().State is EntryState.Published or EntryState.UnderWay;
            if (present > 0 && present == unit.Count() && mayBeThere)
            {
                matched.AddRange(unit.Select(entry => entry.Entry));
                continue;
            }

            // Equal bytes by chance happen only to messages too short to carry their number.
            if (present > 0 && mayBeThere && unit.Any(entry => entry.Length >= LabMessage.HeadLength))
                throw new LabViolation($"{present} of {unit.Count()} messages of a batch were read: {Describe(unit.First())}");
            hasEnded |= Miss(unit);
        }

        if (matched.Count < messages.Count)
            throw new LabViolation($"Message {matched.Count} of those read is none that could be there: "
                + $"{LabMessage.Describe(messages[matched.Count].Bytes)} at {messages[matched.Count].Offset}; the one before it: "
                + (matched.Count == 0 ? "none" : $"number {matched[^1].Number} of producer {matched[^1].Producer}"));
        CheckOffsets(messages, matched);
        return matched;
    }

    /// <summary>What its absence means; true when the log must have ended before it.</summary>
    private bool Miss(IGrouping<int, EntryPicture> unit)
    {
        EntryPicture first = unit.First();
        if (unit.FirstOrDefault(entry => entry.IsAcknowledged) is { Entry: not null } lost)
            throw new LabViolation($"An acknowledged message is gone: {Describe(lost)}");
        if (first.State == EntryState.Published && !isCut)
            throw new LabViolation($"A published message did not survive the kill: {Describe(first)}");
        // A living claim ends the log after a power loss; after a kill its owner is dead.
        return isCut && !isSameBoot
            && (first.State == EntryState.Published || (first.State == EntryState.Claimed && !isExclusive));
    }

    private int CountPresent(IEnumerable<EntryPicture> unit, IReadOnlyList<ReadMessage> messages, int from)
    {
        int present = 0;
        foreach (EntryPicture entry in unit)
        {
            if (from + present >= messages.Count)
                break;
            (long offset, byte[] bytes) = messages[from + present];
            LogEntry written = entry.Entry;
            if (_ownerAt.TryGetValue(offset, out LogEntry? owner) && owner != written)
                break;
            if (bytes.Length != entry.Length
                || !bytes.AsSpan().SequenceEqual(LabMessage.Make(model.Seed, written.Producer, written.Number, entry.Length)))
                break;
            present++;
        }

        return present;
    }

    private static void CheckOffsets(IReadOnlyList<ReadMessage> messages, List<LogEntry> matched)
    {
        for (int i = 0; i < matched.Count; i++)
        {
            if (matched[i].Offset >= 0 && matched[i].Offset != messages[i].Offset)
                throw new LabViolation($"A message was read at {messages[i].Offset} that was appended at {matched[i].Offset}");
            if (i > 0 && messages[i].Offset <= messages[i - 1].Offset)
                throw new LabViolation($"Message at {messages[i].Offset} was read behind the one at {messages[i - 1].Offset}");
        }
    }

    private static string Describe(EntryPicture entry) => $"number {entry.Entry.Number} of producer {entry.Entry.Producer}, "
        + $"{entry.Length} bytes, offset={entry.Entry.Offset}, state={entry.State}";
}

using System.Text.Json.Serialization;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Opening;

namespace MappedFileQueues.Tool.Repair;

/// <summary>
/// Decides what to do about each damage of a store, so that readers and producers pass it and nothing else is lost:
/// <code>
/// damage                                  repair
/// a frame, or any stretch up to a frame   becomes padding
/// a segment that is missing or short      made of padding, or filled up with it
/// all segments before one are missing     the log begins at that one
/// the end of a batch is missing           padding of 8 bytes ends it: its messages stay
/// both checkpoint records                 written anew, at the end of what was checked
/// a cursor inside a message               goes back to the message's start: one message comes again
/// a cursor after the end                  goes back to the end: otherwise it would miss what comes
/// a cursor in what becomes padding        goes back to where that begins
/// a damaged cursor                        goes back to the oldest message: everything comes again, nothing is skipped
/// offsets of a group                      go back as cursors do; what a record no longer counts right comes again
/// both files of a group                   made anew at the oldest message
/// the retention policy                    removed: everything is kept until it is set again
/// the control page                        left to the next opener, which makes it anew
/// garbage after everything known          left to the next opener, which cuts it off into `salvage/`
/// </code>
/// </summary>
internal sealed class RepairPlan
{
    private readonly ReadOnlyStore _store;
    private readonly StoreVerification _found;
    private readonly long _passed;
    private readonly long _epoch;
    private readonly Guid _boot;
    private readonly SegmentStarts _segments;
    private readonly List<RepairStep> _steps = [];
    private readonly List<string> _leftAlone = [];
    private long _first;

    /// <summary>What one segment is to be, by its start.</summary>
    private readonly SortedDictionary<long, SegmentRepair> _segmentRepairs = [];

    private RepairPlan(ReadOnlyStore store, StoreVerification found)
    {
        (_store, _found, _first) = (store, found, found.FirstOffset);
        _passed = store.PassedTo;
        _epoch = store.GatherInfo().Epoch;
        _boot = store.IsOfThisBoot ? CurrentPlatform.Services.Boot.Stored : Guid.Empty;
        _segments = LogStartSearch.List(store.Directory, store.Meta);
    }

    /// <summary>The changes, in order.</summary>
    public IReadOnlyList<RepairStep> Steps => _steps;

    /// <summary>What is not repaired here, and why.</summary>
    public IReadOnlyList<string> LeftAlone => _leftAlone;

    private long SegmentLength => _store.Meta.SegmentLength;

    /// <summary>Makes the plan for what a check has found.</summary>
    public static RepairPlan Make(ReadOnlyStore store, StoreVerification found)
    {
        RepairPlan plan = new(store, found);
        foreach (DamagedRange damage in found.Damages)
            plan.AddDamage(damage);
        if (plan._segmentRepairs.Count > 0 && store.Directory.Identify(StoreNames.Index) is not null)
        {
            // It counts messages that become padding. Without it they are counted by walking.
            plan.Add(StoreNames.Index, "removed: messages are numbered anew", null, static files => files.RemoveIndex());
        }

        foreach ((long start, SegmentRepair repair) in plan._segmentRepairs)
            plan.AddSegment(start, repair);
        plan.AddCursorsInPadding();
        plan.AddGroups();
        foreach (FileFinding finding in found.Findings)
            plan.AddFinding(finding);
        return plan;
    }

    private void AddDamage(DamagedRange damage)
    {
        if (damage.Kind == "batch")
        {
            Pad(damage.NextOffset!.Value, damage.NextOffset.Value + FrameHeader.Size, null);
            return;
        }

        if (damage.NextOffset is { } next)
        {
            bool isBeginning = damage.Kind == "missing" && damage.Offset == _found.FirstOffset && _segments.Contains(next);
            if (isBeginning)
                AddLogStart(damage.Offset, _first = next);
            else
                Pad(damage.Offset, next, damage);
            return;
        }

        if (damage.Offset >= _passed)
        {
            _leftAlone.Add($"At offset {damage.Offset} the log ends for all that is known, and what is after it is no "
                + "message: the next program that opens the store alone cuts it off, and keeps it in salvage/.");
            return;
        }

        Pad(damage.Offset, _passed, damage);
        if (damage.Kind is "missing" or "short")
            Repair(_store.Window.StartOf(_passed)).ZeroFrom = _passed;
    }

    private void Add(string file, string action, string? loss, Action<RepairFiles> apply) =>
        _steps.Add(new RepairStep(file, action, loss) { Apply = apply });

    private void AddLogStart(long from, long to) => Add(
        StoreNames.LogStart,
        $"the log begins at offset {Report.Number(to)}",
        $"all messages from offset {Report.Number(from)} to there: {Report.Bytes(to - from)}, whose files are missing",
        files => files.SetLogStart(to, _epoch, _boot));

    /// <summary>Notes that a stretch becomes padding, segment by segment.</summary>
    private void Pad(long from, long to, DamagedRange? damage)
    {
        while (from < to)
        {
            long start = _store.Window.StartOf(from);
            long end = Math.Min(to, start + SegmentLength);
            SegmentRepair repair = Repair(start);
            repair.Ranges.Add((from, end));
            if (damage is not null)
                repair.Reasons.Add($"{Report.Number(from)} to {Report.Number(end)}: {damage.Reason}");
            from = end;
        }
    }

    private SegmentRepair Repair(long start)
    {
        if (!_segmentRepairs.TryGetValue(start, out SegmentRepair? repair))
            _segmentRepairs.Add(start, repair = new SegmentRepair());
        return repair;
    }

    private void AddSegment(long start, SegmentRepair repair)
    {
        if (repair.Ranges.Count == 0)
            return;
        long bytes = repair.Reasons.Count == 0 ? 0 : repair.Ranges.Sum(range => range.To - range.From);
        string what = _segments.Contains(start)
            ? $"{Report.Count(repair.Ranges.Count, "damaged place")} {(repair.Ranges.Count == 1 ? "becomes" : "become")} padding"
            : "made anew, of padding";
        string? loss = bytes == 0 ? null
            : $"the messages in {Report.Bytes(bytes)}: offsets {string.Join("; ", repair.Reasons)}";
        Add(StoreNames.Segment(start), bytes == 0 ? "padding ends the last batch" : what, loss,
            files => files.Pad(start, repair.Ranges, repair.ZeroFrom));
    }

    private void AddFinding(FileFinding finding)
    {
        if (!finding.IsDamage)
            return;
        string file = finding.File;
        if (file == StoreNames.Retention)
        {
            Add(file, "removed: everything is kept until `mfq retention` sets a policy", "the policy",
                files => files.Remove(file));
        }
        else if (file == StoreNames.Checkpoint)
        {
            long safe = _found.SafeOffset;
            Add(file, $"written anew: all before offset {Report.Number(safe)} was checked", null,
                files => files.SetCheckpoint(safe, _epoch + 1, _boot));
        }
        else if (file == StoreNames.LogStart)
        {
            long start = _store.Window.StartOf(_found.FirstOffset);
            Add(file, $"written anew: nothing is left before offset {Report.Number(start)}", null,
                files => files.SetLogStart(start, _epoch, _boot));
        }
        else if (file.EndsWith(StoreNames.GroupSuffix, StringComparison.Ordinal))
        {
            // AddGroups has it, with those that lose a place to padding.
        }
        else if (finding.Consumer is not null)
        {
            AddCursor(file, finding.Offset);
        }
        else
        {
            _leftAlone.Add($"{file}: {finding.Reason} {finding.Remedy}");
        }
    }

    /// <summary>A cursor among lost messages would be inside the padding, which is no message's start.</summary>
    private void AddCursorsInPadding()
    {
        (long From, long To)[] ranges = [.. _segmentRepairs.Values.SelectMany(repair => repair.Ranges)];
        foreach (StoredCursor cursor in CursorFile.ReadAll(_store.Directory))
        {
            (long from, _) = ranges.FirstOrDefault(range => cursor.Offset > range.From && cursor.Offset < range.To, (-1, -1));
            if (from >= 0)
                AddCursor(cursor.File, from, "the start of the padding", "");
        }
    }

    private void AddGroups()
    {
        (long From, long To)[] padding = [.. _segmentRepairs.Values.SelectMany(repair => repair.Ranges)];
        foreach (StoredGroup group in StoredGroup.ReadAll(_store.Directory, _store.Meta.StoreId))
        {
            SavedGroup? before = group.Believed(_store.IsOfThisBoot);
            // Nobody here knows whether it is damaged.
            if (before is null && group.Denied is not null)
                continue;
            SavedGroup after = before is null ? new SavedGroup(_epoch, _first, []) : StoredGroup.Move(before, Place);
            int moved = 0;
            if (before is not null)
            {
                moved = StoredGroup.OffsetsOf(before).Zip(StoredGroup.OffsetsOf(after)).Count(pair => pair.First != pair.Second);
                if (moved == 0)
                    continue;
            }

            Add(
                group.File,
                before is null
                    ? $"group {group.Name} goes back to the oldest message, offset {Report.Number(_first)}; all may come again"
                    : $"group {group.Name}: {Report.Count(moved, "offset")} {(moved == 1 ? "goes" : "go")} back to the start "
                        + "of a frame; messages that were acknowledged there may come again",
                null,
                files => files.SetGroup(group.Name, after));
        }

        long Place(long offset)
        {
            (long from, _) = padding.FirstOrDefault(range => offset > range.From && offset < range.To, (-1, -1));
            return from >= 0 ? from : _found.MisplacedOffsets.Contains(offset) ? PlaceOf(offset) : offset;
        }
    }

    /// <summary>Only back, or to where nothing is after it: a consumer that goes forward misses messages.</summary>
    private void AddCursor(string file, long? stored)
    {
        long end = End;
        long place = stored is { } offset ? PlaceOf(offset) : _first;
        string where = stored is null ? "the oldest message" : stored > end ? "the end of the log" : "the start of its message";
        string again = stored > end ? "" : $"; up to {Report.Bytes((stored ?? end) - place)} that it has read may come again";
        AddCursor(file, place, where, again);
    }

    private void AddCursor(string file, long place, string where, string again) => Add(
        file,
        $"consumer {ConsumerName.Show(CursorFile.NameOf(file))} goes back to {where}, offset {Report.Number(place)}{again}",
        null,
        files => files.SetCursor(file, place));

    private long End => Math.Max(_found.EndOffset, _found.Damages is [.., { NextOffset: null }] ? _passed : 0);

    private long PlaceOf(long offset) => offset > End ? End : FindFrameBefore(offset);

    /// <summary>The start of the frame that an offset is in, as far as a walk comes from its segment's first byte.</summary>
    private long FindFrameBefore(long offset)
    {
        long at = Math.Max(_store.Window.StartOf(Math.Max(offset, 0)), _found.FirstOffset);
        long start = _store.Window.StartOf(at);
        using PlatformFile? file = _store.Directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null || offset < at)
            return at;
        var scanner = new SegmentScanner(file, start, SegmentLength, _store.Checksum);
        while (scanner.TryReadHeader(at - start, out ulong header)
            && at + FrameHeader.FrameLength(FrameHeader.Length(header)) is var next && next <= offset)
            at = next;
        return at;
    }

    /// <summary>The repair of one segment.</summary>
    private sealed class SegmentRepair
    {
        public List<(long From, long To)> Ranges { get; } = [];
        public List<string> Reasons { get; } = [];
        public long? ZeroFrom { get; set; }
    }
}

/// <summary>One change to one file, and what is lost by it, or rather by the damage; null for nothing.</summary>
internal sealed record RepairStep(string File, string Action, string? Loss)
{
    /// <summary>Makes the change; a process that dies in it leaves the file as it was, or as it should be.</summary>
    [JsonIgnore]
    public Action<RepairFiles> Apply { get; init; } = static _ => { };
}

/// <summary>What `mfq repair` would do, or did.</summary>
internal sealed record RepairReport(
    string StorePath, bool IsDryRun, IReadOnlyList<RepairStep> Steps, IReadOnlyList<string> LeftAlone,
    IReadOnlyList<string> Salvage, StoreVerification? After);

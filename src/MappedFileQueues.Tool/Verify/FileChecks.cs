using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Sequences;

namespace MappedFileQueues.Tool.Verify;

/// <summary>Checks the files of a store beside its segments.</summary>
internal sealed class FileChecks(ReadOnlyStore store, StoreVerification log)
{
    private readonly List<FileFinding> _findings = [];

    /// <summary>Checks all of them.</summary>
    public IReadOnlyList<FileFinding> Run(CursorPlaces cursors)
    {
        CheckControl();
        CheckRecord(StoreNames.Checkpoint, "The next opener reads the log from its first segment.");
        CheckRecord(StoreNames.LogStart, "The next opener takes the first segment in a row for the oldest.");
        CheckRetention();
        CheckCursors(cursors);
        CheckGroups(cursors);
        CheckProducers();
        CheckLocks();
        if (store.Directory.Identify(StoreNames.Poison) is not null)
            Note(StoreNames.Poison, "A flush failed.", "Close the store everywhere; the next opener checks what the disk holds.");
        if (store.RefusedAt is >= 0 and var at)
        {
            Note(StoreNames.Control, $"Producers are refused because of damage at offset {at}.",
                "Close the store everywhere, then run `mfq repair --apply`.");
        }

        return _findings;
    }

    private void CheckControl()
    {
        if (store.HasValidControl)
            return;
        bool isThere = store.Directory.Identify(StoreNames.Control) is not null;
        Note(StoreNames.Control, isThere ? "It is not valid." : "It is missing.",
            "The next process that opens the store alone makes it anew.");
    }

    /// <summary>A file of two slots, of which the newer valid one counts.</summary>
    private void CheckRecord(string name, string remedy)
    {
        using PlatformFile? file = store.Directory.Open(name, FileOpening.Read);
        if (file is null)
        {
            if (name == StoreNames.Checkpoint)
                Damage(name, "It is missing.", remedy);
            return;
        }

        int valid = 0;
        int torn = 0;
        byte[] bytes = new byte[CheckpointRecord.Length];
        for (int slot = 0; slot < 2; slot++)
        {
            int read = file.ReadAt(bytes, slot * CheckpointRecord.SlotDistance);
            if (CheckpointRecord.Parse(bytes.AsSpan(0, read), store.Meta.StoreId) is not null)
                valid++;
            else if (bytes.AsSpan(0, read).ContainsAnyExcept((byte)0))
                torn++;
        }

        if (valid == 0)
            Damage(name, "Neither of its two records is valid.", remedy);
        else if (torn > 0)
            Note(name, "One of its two records is not valid, as after a power loss.", "The other one counts.");
    }

    private void CheckRetention()
    {
        try
        {
            _ = RetentionFile.Read(store.Directory, store.Meta.StoreId);
        }
        catch (QueueFormatException)
        {
            Damage(StoreNames.Retention, "The policy is damaged, so nothing is removed.",
                "Set it again with `mfq retention`, or run `mfq repair`.");
        }
    }

    private void CheckCursors(CursorPlaces cursors)
    {
        foreach (StoredCursor cursor in CursorFile.ReadAll(store.Directory))
        {
            if (cursor.IsDamaged)
                DamagedCursor(cursor.File, "Its offset is damaged, so nobody knows how far its consumer was.", null);
            else if (cursor.Problem is { } problem)
                Note(cursor.File, problem, cursor.IsUnknown ? "Verify as a user who may read it." : "Move it away.");
        }

        string lockOf = StoreNames.ConsumerLock("");
        foreach (string name in store.Directory.List(StoreNames.Locks)
            .Where(name => $"{StoreNames.Locks}/{name}".StartsWith(lockOf, StringComparison.Ordinal))
            .Select(name => $"{StoreNames.Locks}/{name}"[lockOf.Length..]))
        {
            if (store.Directory.Identify(StoreNames.Cursor(name)) is null)
                Note(StoreNames.Cursor(name), "It is missing, and a consumer of this name was here.",
                    $"If nobody deleted it, place it before its program does: `mfq consumers reset STORE \"{name}\"`.");
        }

        foreach ((string file, long offset) in cursors.Lost.Where(cursor => !IsGroup(cursor.File)))
        {
            if (offset < log.FirstOffset)
                Note(file, $"Its messages were removed: offset={offset}, logStart={log.FirstOffset}.", ResetOrRepair(file));
            else
                DamagedCursor(file, $"Its offset is not the start of a message: offset={offset}.", offset);
        }

        foreach ((string file, long offset) in cursors.Ahead.Where(cursor => !IsGroup(cursor.File)))
        {
            if (IsAfterEnd(offset))
                DamagedCursor(file, $"Its offset is after the end of the log: offset={offset}, end={log.EndOffset}.", offset);
        }
    }

    private void CheckGroups(CursorPlaces places)
    {
        (string File, long Offset)[] wrong =
        [
            // What was removed is done for a group.
            .. places.Lost.Where(place => IsGroup(place.File) && place.Offset >= log.FirstOffset),
            .. places.Ahead.Where(place => IsGroup(place.File) && IsAfterEnd(place.Offset)),
        ];
        log.MisplacedOffsets.UnionWith(wrong.Select(place => place.Offset));
        foreach (StoredGroup group in StoredGroup.ReadAll(store.Directory, store.Meta.StoreId))
        {
            long[] ofGroup = [.. wrong.Where(place => place.File == group.File).Select(place => place.Offset)];
            bool isUnknown = group.Believed(store.IsOfThisBoot) is null;
            if (isUnknown && group.Denied is { } denied)
                Note(group.File, denied.Message, "Verify as a user who may read it.");
            else if (isUnknown)
                DamagedGroup(group, "Its files are damaged, so nobody knows how far its members were.", null);
            else if (group.Table is null && store.IsOfThisBoot)
                Note(group.File, "It is damaged.", "Close the store everywhere; the next opener makes it anew of its copy.");
            else if (ofGroup.Length > 0)
            {
                long first = ofGroup.Min();
                DamagedGroup(group, $"{Report.Count(ofGroup.Length, "offset")} in it "
                    + $"{(ofGroup.Length == 1 ? "is" : "are")} not the start of a message: first={first}.", first);
            }
            else if (group.Copy is null)
                Note(StoreNames.SavedGroup(group.Name), "It is missing or damaged, or cannot be read.",
                    "A member that works makes it anew; a power loss before that would lose the group's place.");
        }
    }

    private void CheckProducers()
    {
        foreach (string name in ProducerFile.Names(store.Directory))
        {
            try
            {
                if (ProducerFile.IsWhole(store.Directory, store.Meta, name))
                    log.ProducerCount++;
                else if (store.Directory.Identify(name) is not null)
                    Damage(name, "It is damaged, or of another store, so its producer is refused.",
                        "Restore it, or remove it: then repetitions are not known.");
            }
            catch (QueueDiskException error)
            {
                Note(name, error.Message, "Verify as a user who may read it.");
            }
        }
    }

    /// <summary>
    /// A lock is a file. Where something else has its name, the store cannot be used although all in it is whole.
    /// </summary>
    private void CheckLocks()
    {
        foreach (string name in store.Directory.List(StoreNames.Locks))
        {
            string file = $"{StoreNames.Locks}/{name}";
            if (!IsFile(file))
                Note(file, "It is not a file, so what needs this lock fails.",
                    "Move it away; the next process that needs the lock makes its file.");
        }
    }

    private bool IsFile(string file)
    {
        // Windows lets nobody open a file that is held as a lock.
        if (OperatingSystem.IsWindows())
            return !Directory.Exists(Path.Combine(store.Directory.Path, file));
        try
        {
            store.Directory.Open(file, FileOpening.Read)?.Dispose();
            return true;
        }
        catch (QueueDiskException error) when (error.Errno is DiskErrors.EISDIR or DiskErrors.EINVAL)
        {
            return false;
        }
    }

    private void DamagedGroup(StoredGroup group, string reason, long? offset) =>
        _findings.Add(new FileFinding(group.File, IsDamage: true, reason,
            $"Reset it with `mfq consumers reset STORE \"{group.Name}\" --group --to earliest`, or run `mfq repair`.")
        {
            Consumer = StoreCursors.NameOf(group.File),
            Offset = offset,
        });

    private bool IsAfterEnd(long offset) => offset > log.EndOffset
        && log.UnrecoveredFrom is null && log.Damages is not [.., { NextOffset: null }];

    private static bool IsGroup(string file) => file.EndsWith(StoreNames.GroupSuffix, StringComparison.Ordinal);

    private static string ResetOrRepair(string file) =>
        $"Move it with `mfq consumers reset STORE \"{CursorFile.NameOf(file)}\"`, or run `mfq repair`.";

    private void DamagedCursor(string file, string reason, long? offset) =>
        _findings.Add(new FileFinding(file, IsDamage: true, reason, ResetOrRepair(file))
        {
            Consumer = CursorFile.NameOf(file),
            Offset = offset,
        });

    private void Damage(string file, string reason, string remedy) =>
        _findings.Add(new FileFinding(file, IsDamage: true, reason, remedy));

    private void Note(string file, string reason, string remedy) =>
        _findings.Add(new FileFinding(file, IsDamage: false, reason, remedy));
}

/// <summary>
/// The offsets of consumers and groups, read before the log is walked, and what the walk finds at each: an offset belongs to the
/// start of a frame, or to the end of the log.
/// </summary>
internal sealed class CursorPlaces
{
    private readonly List<(string File, long Offset)> _ahead = [];
    private readonly List<(string File, long Offset)> _lost = [];
    private int _next;

    /// <summary>Reads them. One that is new or damaged, or that cannot be read, is left out.</summary>
    public CursorPlaces(ReadOnlyStore store)
    {
        foreach (string file in CursorFile.Names(store.Directory))
        {
            if (CursorFile.TryRead(store.Directory, file).Offset is { } offset)
                _ahead.Add((file, offset));
        }

        foreach (StoredGroup group in StoredGroup.ReadAll(store.Directory, store.Meta.StoreId))
        {
            if (group.Believed(store.IsOfThisBoot) is { } believed)
                _ahead.AddRange(StoredGroup.OffsetsOf(believed).Select(offset => (group.File, offset)));
        }

        _ahead.Sort((one, other) => one.Offset.CompareTo(other.Offset));
    }

    /// <summary>The cursors that the walk has passed without finding a frame at their offset.</summary>
    public IReadOnlyList<(string File, long Offset)> Lost => _lost;

    /// <summary>The cursors that the walk has not reached.</summary>
    public IEnumerable<(string File, long Offset)> Ahead => _ahead.Skip(_next);

    /// <summary>A frame begins at the offset.</summary>
    public void Pass(long offset)
    {
        for (; _next < _ahead.Count && _ahead[_next].Offset <= offset; _next++)
        {
            if (_ahead[_next].Offset < offset)
                _lost.Add(_ahead[_next]);
        }
    }

    /// <summary>What is before the offset is damaged: cursors in there are not at fault.</summary>
    public void PassDamage(long nextOffset)
    {
        while (_next < _ahead.Count && _ahead[_next].Offset < nextOffset)
            _next++;
    }
}

using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// Replaces volumes that hold much garbage, and small neighbours, by fewer volumes (docs/PACKS.md section 4). It writes each
/// needle that is still needed once, and the index once, at the end. Runs under the maintenance lock; puts, deletes and gets
/// continue. A kill at any point loses nothing.
/// </summary>
internal sealed class PackCompactor(PackWriter writer)
{
    private readonly List<MovedNeedle> _moved = [];

    /// <summary>
    /// Volumes whose copies count in memory but not yet in a checkpoint. Until they do, the files of these volumes stay.
    /// </summary>
    private readonly List<Volume> _replaced = [];

    private int _replacedCount;
    private int _made;
    private int _skipped;

    private PackCore Core => writer.Core;

    private bool IsAllThere => Core.Hidden.IsEmpty && Core.Volumes.Gaps.Count == 0;

    public PackCompaction Run(double garbageMin, CancellationToken cancellationToken)
    {
        long before = TotalLength();
        EndActive(garbageMin);
        try
        {
            while (!TryReplaceAll(garbageMin, cancellationToken))
            {
            }

            Settle();
        }
        catch
        {
            TrySettle();
            throw;
        }
        finally
        {
            writer.KeepReserve();
        }

        return new PackCompaction
        {
            VolumesReplaced = _replacedCount,
            VolumesMade = _made,
            BytesFreed = Math.Max(0, before - TotalLength()),
            VolumesSkipped = _skipped,
        };
    }

    /// <summary>
    /// These numbers, with a generation above that of every file with one of them. A compaction that failed after its rename has
    /// left a file that is not among the volumes in memory.
    /// </summary>
    public static VolumeName NameFor(HeldDirectory directory, uint first, uint last)
    {
        var name = new VolumeName(first, last, 0);
        uint generation = 0;
        foreach (string file in directory.List(PackNames.Volumes))
        {
            if (VolumeName.TryParse(file, out VolumeName other) && other.Overlaps(name))
                generation = Math.Max(generation, other.Generation);
        }

        return name with { Generation = generation + 1 };
    }

    /// <summary>
    /// Whether a volume has enough garbage. The tombstones that a compaction kept are needed until the volumes before them have
    /// been compacted later: otherwise a volume of only tombstones would be rewritten each time.
    /// </summary>
    private static bool IsWorth(Volume volume, double garbageMin, ulong olderCleanAsOf)
    {
        long used = volume.Tail - VolumeHeader.Length;
        bool areTombstonesNeeded = volume.CleanAsOf > olderCleanAsOf;
        long garbage = used - volume.LiveLength - (areTombstonesNeeded ? volume.TombstoneLength : 0);
        return garbage > 0 && garbage >= used * garbageMin;
    }

    private long TotalLength() => Core.Volumes.InOrder.Sum(static volume => volume.Tail);

    /// <summary>
    /// Ends the volume that takes puts if it is worth compacting: the next put goes into a new one. Not in a full pack, which
    /// would have no volume for the next delete.
    /// </summary>
    private void EndActive(double garbageMin)
    {
        using (writer.Appender.Gate.Take())
        {
            bool isFull = Core.Volumes.FreeCount <= VolumeTable.ReservedForTombstones;
            if (!isFull && writer.Appender.Active is { } active
                && IsWorth(active, garbageMin, olderCleanAsOf: 0))
                writer.Appender.EndVolume();
        }
    }

    /// <summary>False if the disk was full, and a copy of less has made room meanwhile: then another try gets further.</summary>
    private bool TryReplaceAll(double garbageMin, CancellationToken cancellationToken)
    {
        try
        {
            ReplaceAll(garbageMin, cancellationToken);
            return true;
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno) && TryReplaceEmptiest(garbageMin))
        {
            return false;
        }
    }

    /// <summary>
    /// Copies the one volume of which the least is kept, with the room of reserve and checkpoint, and deletes it. False if that
    /// was not possible either.
    /// </summary>
    private bool TryReplaceEmptiest(double garbageMin)
    {
        HashSet<VolumeName> hiding = [.. Core.Hidden.Stretches.Select(stretch => stretch.Name)];
        Volume? emptiest = Core.Volumes.InOrder
            .Where(volume => volume != writer.Appender.Active && !hiding.Contains(volume.Name)
                && IsWorth(volume, garbageMin, CleanAsOfBefore(volume.Name.First)))
            .MinBy(static volume => volume.LiveLength + volume.TombstoneLength);
        if (emptiest is null)
            return false;
        int before = _replacedCount;
        using (writer.Appender.Gate.Take())
            writer.Appender.Reserve.Lend();
        try
        {
            if (IsAllThere)
                DropCheckpoint();
            Replace([emptiest], garbageMin);
            Settle();
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno))
        {
            // The caller has that error already.
        }

        return _replacedCount > before;
    }

    /// <summary>
    /// Goes from the oldest volume to the newest: once older volumes are clean, newer ones can drop tombstones.
    /// </summary>
    private void ReplaceAll(double garbageMin, CancellationToken cancellationToken)
    {
        List<Volume> full;
        ulong sequence;
        using (writer.Appender.Gate.Take())
        {
            full = [.. Core.Volumes.InOrder.Where(volume => volume != writer.Appender.Active)];
            sequence = Core.Sequence;
        }

        HashSet<VolumeName> hiding = [.. Core.Hidden.Stretches.Select(stretch => stretch.Name)];
        var older = new CleanPrefix();
        for (int at = 0; at < full.Count;)
        {
            cancellationToken.ThrowIfCancellationRequested();
            List<Volume> run = RunFrom(full, at, garbageMin, older.CleanAsOf(full[at].Name.First), sequence, hiding);
            if (run.Count > 0)
            {
                Replace(run, garbageMin);
                at += run.Count;
                older = CleanBefore(run[^1].Name.Last + 1);
                continue;
            }

            bool isSkipped = hiding.Contains(full[at].Name) && IsWorth(full[at], garbageMin, olderCleanAsOf: 0);
            _skipped += isSkipped ? 1 : 0;
            older.Add(full[at]);
            at++;
        }
    }

    /// <summary>
    /// The neighbours from this volume on that one new volume replaces: those with much garbage, and those less than half full,
    /// as long as what they hold fits into one. A run never spans a missing number: the lost volume could not be restored once
    /// another one covers its number. Empty if a replacement is not worth it.
    /// </summary>
    private List<Volume> RunFrom(
        List<Volume> full, int first, double garbageMin, ulong olderCleanAsOf, ulong sequence, HashSet<VolumeName> hiding)
    {
        List<Volume> run = [];
        long length = VolumeHeader.Length;
        bool hasWorth = false;
        foreach (Volume volume in full.Skip(first))
        {
            // The live needles can only become fewer. No tombstone is needed if everything before is clean as of now.
            long kept = volume.LiveLength + (olderCleanAsOf >= sequence ? 0 : volume.TombstoneLength);
            bool isWorth = IsWorth(volume, garbageMin, olderCleanAsOf);
            bool isWanted = !hiding.Contains(volume.Name) && (isWorth || volume.Tail < Core.Meta.VolumeLength / 2);
            bool fits = run.Count == 0
                || (volume.Name.First == run[^1].Name.Last + 1 && length + kept <= Core.Meta.VolumeLength);
            if (!isWanted || !fits)
                break;
            run.Add(volume);
            length += kept;
            hasWorth |= isWorth;
        }

        return hasWorth || run.Count > 1 ? run : [];
    }

    private void Replace(List<Volume> run, double garbageMin)
    {
        VolumeName name = NameFor(Core.Directory, run[0].Name.First, run[^1].Name.Last);
        if (name.Generation > VolumeName.GenerationMax)
            return;
        Volume made;
        try
        {
            made = CopyOrMakeRoom(run, name);
        }
        catch (DamagedNeedleException damage)
        {
            // A volume that cannot be read is kept: other tools may still get something from it. Its neighbours are replaced
            // without it.
            _skipped++;
            int at = run.IndexOf(damage.Volume);
            ReplaceRest(run[..at], garbageMin);
            ReplaceRest(run[(at + 1)..], garbageMin);
            return;
        }

        ProtocolSteps.Reach(ProtocolStep.PackCompactionRenamed);
        Core.Volumes.Add(made);
        _made++;
        MoveEntries(made);
        ProtocolSteps.Reach(ProtocolStep.PackEntriesMoved);
        run.ForEach(Core.Volumes.Remove);
        _replaced.AddRange(run);
        writer.MarkChanged();
    }

    private void ReplaceRest(List<Volume> run, double garbageMin)
    {
        if (run.Count > 1 || run.Exists(volume => IsWorth(volume, garbageMin, CleanAsOfBefore(volume.Name.First))))
            Replace(run, garbageMin);
    }

    /// <summary>
    /// Copies a run. Old files stay until the end; if the disk is full they are deleted earlier, and the copy is tried once more.
    /// </summary>
    private Volume CopyOrMakeRoom(List<Volume> run, VolumeName name)
    {
        Core.Volumes.RequireFree(1);
        try
        {
            return Copy(run, name);
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno) && _replaced.Count > 0)
        {
            Settle();
            return Copy(run, name);
        }
    }

    /// <summary>Settles while an exception is under way: what is done stays done if possible.</summary>
    private void TrySettle()
    {
        try
        {
            Settle();
        }
        catch (MappedFileQueueException)
        {
            // The old files stay beside the new ones. The next opening removes those that do not count.
        }
    }

    /// <summary>
    /// Writes a checkpoint that names the new volumes, then deletes the old ones. If the disk has no room for it, there is none.
    /// </summary>
    private void Settle()
    {
        if (_replaced.Count == 0)
            return;
        try
        {
            writer.CheckpointHeld();
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno) && IsAllThere)
        {
            DropCheckpoint();
        }

        foreach (Volume old in _replaced)
        {
            _ = Core.Directory.Delete(old.Name.Path);
            ProtocolSteps.Reach(ProtocolStep.PackVolumeDeleted);
            _replacedCount++;
        }

        _replaced.Clear();
        Core.Directory.FlushEntries(PackNames.Volumes);
    }

    /// <summary>
    /// Without a checkpoint all copies count, and the next opening reads all volumes. Not if it knows of losses, which no volume
    /// tells.
    /// </summary>
    private void DropCheckpoint()
    {
        if (Core.Directory.Delete(PackNames.Checkpoint))
            Core.Directory.FlushEntries("");
        writer.MarkChanged();
    }

    /// <summary>The sequence as of which all volumes before this number are clean.</summary>
    private ulong CleanAsOfBefore(uint number) => CleanBefore(number).CleanAsOf(number);

    private CleanPrefix CleanBefore(uint number)
    {
        var older = new CleanPrefix();
        foreach (Volume volume in Core.Volumes.InOrder.Where(volume => volume.Name.Last < number))
            older.Add(volume);
        return older;
    }

    private Volume Copy(List<Volume> run, VolumeName name)
    {
        _moved.Clear();
        ulong cleanAsOf;
        using (writer.Appender.Gate.Take())
        {
            // What is missing or damaged may come back, with needles older than now, so nothing is clean as of now.
            cleanAsOf = IsAllThere ? Core.Sequence : 0;
        }

        ulong olderCleanAsOf = CleanAsOfBefore(name.First);
        long tombstones = 0;
        uint seed = NeedleLayout.VolumeSeed(Core.Meta.PackId, name.Last, name.Generation);
        var header = new VolumeHeader(name, cleanAsOf, run[0].SequenceBefore, run[0].PreviousEnd);
        Volume made = PackAppender.MakeVolume(Core, header, file =>
        {
            using var copier = new NeedleCopier(file, seed);
            foreach (Volume old in run)
                tombstones += Copy(old, olderCleanAsOf, copier);
            copier.Flush();

            // What was left out is dead because of needles that may not be on disk yet: if they were lost, a power loss would
            // leave only the copy.
            if (!PlantedFaults.Has(PlantedFault.CompactionNotFlushed))
                writer.Appender.Flush();
            ProtocolSteps.Reach(ProtocolStep.PackCompactionCopied);
        });
        made.AddTombstone(tombstones);
        return made;
    }

    /// <summary>Copies what is needed of a volume. Returns the length of the tombstones among it.</summary>
    private long Copy(Volume old, ulong olderCleanAsOf, NeedleCopier copier)
    {
        using var scanner = new VolumeScanner(old, VolumeHeader.Length, old.Tail);
        try
        {
            return Copy(scanner, olderCleanAsOf, copier);
        }
        catch (MappedFileQueueException error) when (IsDamage(error, old))
        {
            throw new DamagedNeedleException(old, scanner.Position);
        }
    }

    /// <summary>Whether bytes of the volume have changed since they were checked, or the disk cannot give them.</summary>
    private static bool IsDamage(MappedFileQueueException error, Volume old) => error is PackCorruptException
        || (error is QueueDiskException { Errno: DiskErrors.EIO } disk && disk.Path == old.File.Path);

    private long Copy(VolumeScanner scanner, ulong olderCleanAsOf, NeedleCopier copier)
    {
        ulong sequence = 0;
        long tombstones = 0;
        while (!scanner.IsAtEnd)
        {
            if (!scanner.TryNext(sequence, wholeNeedle: true) && !TryPassDead(scanner, sequence))
                throw new DamagedNeedleException(scanner.Volume, scanner.Position);
            sequence = scanner.Needle.Sequence;
            if (scanner.Needle.Kind == NeedleKind.Value)
            {
                CopyIfLive(scanner, copier);
            }
            else if (IsNeeded(scanner, olderCleanAsOf))
            {
                copier.Copy(scanner);
                tombstones += scanner.Needle.Length;
            }
        }

        return tombstones;
    }

    /// <summary>
    /// Whether there is a value with damaged data that is no longer needed, because its key was put or deleted again. Such damage
    /// disappears with the volume.
    /// </summary>
    private bool TryPassDead(VolumeScanner scanner, ulong sequence) =>
        scanner.TryNext(sequence, wholeNeedle: false) && scanner.Needle.Kind == NeedleKind.Value
        && !IsLive(scanner, out _, out _);

    private bool IsLive(VolumeScanner scanner, out ulong hash, out ulong entry)
    {
        hash = Core.Lookup.HashOf(scanner.Key);
        entry = Core.Layout.Pack(hash, scanner.Volume.Slot, scanner.NeedlePosition, scanner.Needle.Length);
        return Core.Index.Contains(hash, entry);
    }

    private void CopyIfLive(VolumeScanner scanner, NeedleCopier copier)
    {
        if (!IsLive(scanner, out ulong hash, out ulong entry))
            return;
        uint units = (uint)(copier.Copy(scanner) / NeedleLayout.Unit);
        _moved.Add(new MovedNeedle(hash, entry, units, scanner.Needle.Length));
    }

    /// <summary>
    /// A tombstone is needed while an older needle of its key may exist in a volume before the run. It is not needed if the key
    /// has a newer value: if that is deleted, the same question is asked for its tombstone.
    /// </summary>
    private bool IsNeeded(VolumeScanner tombstone, ulong olderCleanAsOf)
    {
        if (PlantedFaults.Has(PlantedFault.TombstonesDropped))
            return false;
        if (tombstone.Needle.Sequence <= olderCleanAsOf)
            return false;
        ReadOnlySpan<byte> key = tombstone.Key;
        return !(Core.TryFindPlace(key, Core.Lookup.HashOf(key), out NeedlePlace place) && place.IsReadable);
    }

    /// <summary>
    /// Moves the entries that still point into the run to the copies. An entry that is still there means the same needle as
    /// before, because nothing is put into the run. So no file is read, and nothing can fail half-way.
    /// </summary>
    private void MoveEntries(Volume made)
    {
        foreach (MovedNeedle needle in _moved)
        {
            ulong entry = Core.Layout.Pack(needle.Hash, made.Slot, (long)needle.Units * NeedleLayout.Unit, needle.Length);
            using (writer.Appender.Gate.Take())
            {
                if (!Core.Index.Replace(needle.Hash, needle.Entry, entry))
                    continue;
                Core.Volumes.At(Core.Layout.Slot(needle.Entry))!.AddLive(-needle.Length, -1);
                made.AddLive(needle.Length, 1);
            }
        }
    }

    /// <summary>A value that was copied: the entry of its old place, and its new position in units of 8.</summary>
    private readonly record struct MovedNeedle(ulong Hash, ulong Entry, uint Units, int Length);

    /// <summary>
    /// The lowest sequence that the volumes from the first one on are clean as of; 0 after a missing volume, because it may be
    /// restored.
    /// </summary>
    private struct CleanPrefix
    {
        private ulong _cleanAsOf = ulong.MaxValue;
        private uint _next = 1;

        public CleanPrefix()
        {
        }

        public readonly ulong CleanAsOf(uint number) => _next == number ? _cleanAsOf : 0;

        public void Add(Volume volume)
        {
            _cleanAsOf = volume.Name.First == _next ? Math.Min(_cleanAsOf, volume.CleanAsOf) : 0;
            _next = volume.Name.Last + 1;
        }
    }

    /// <summary>Thrown if a volume of the run cannot be copied.</summary>
    private sealed class DamagedNeedleException(Volume volume, long position)
        : MappedFileQueueException(PackLookup.Damaged(volume, position).Message)
    {
        public Volume Volume { get; } = volume;
    }
}

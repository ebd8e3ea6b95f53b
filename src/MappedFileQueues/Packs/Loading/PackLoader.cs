using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Loading;

/// <summary>A pack as it was found.</summary>
/// <param name="Core">The pack in memory.</param>
/// <param name="Leftovers">Volumes that do not count any more; a writer removes them.</param>
/// <param name="CoveredTail">Up to here the checkpoint covers the last volume; the volume's header when there is none.</param>
/// <param name="ScannedLength">How many bytes lay behind what the checkpoint covers.</param>
/// <param name="LastNumber">
/// The highest number of a volume that is there or named by the checkpoint or the mark; 0 for an empty pack.
/// </param>
internal sealed record LoadedPack(
    PackCore Core, IReadOnlyList<VolumeName> Leftovers, long CoveredTail, long ScannedLength, uint LastNumber);

/// <summary>
/// Opens a pack's volumes and makes the index: from the checkpoint and what came after it, or from the volumes alone. Changes no
/// file.
/// </summary>
internal sealed class PackLoader(HeldDirectory directory, PackMeta meta, PackAccess access)
{
    /// <summary>How often a reader begins anew because a compaction removes the files that it is about to open.</summary>
    private const int TriesMax = 1000;

    /// <summary>More needles than a volume can hold: 16 GiB of the shortest ones.</summary>
    private const ulong NeedlesOfAVolume = 1UL << 32;

    private PackCore _core = new(directory, meta, access);
    private SyncedMark _mark = new(Guid.Empty, 0, 0);
    private bool _isWriter;
    private uint _lastNumber;
    private long _scannedLength;
    private long _coveredTail = VolumeHeader.Length;

    /// <summary>Reads `pack.meta`; null when it is missing.</summary>
    public static PackMeta? ReadMeta(HeldDirectory directory)
    {
        using PlatformFile? file = directory.Open(PackNames.Meta, FileOpening.Read);
        if (file is null)
            return null;
        byte[] bytes = new byte[PackMeta.Length + 1];
        int read = file.ReadAt(bytes, 0);
        return PackMeta.Parse(bytes.AsSpan(0, read), file.Path);
    }

    /// <summary>Loads the pack; <paramref name="useCheckpoint"/> false makes the index from the volumes alone.</summary>
    public LoadedPack Load(bool useCheckpoint, bool writable)
    {
        try
        {
            return LoadConsistent(useCheckpoint, writable);
        }
        catch
        {
            _core.Dispose();
            throw;
        }
    }

    private LoadedPack LoadConsistent(bool useCheckpoint, bool writable)
    {
        _isWriter = writable;
        for (int tries = 0; ; tries++)
        {
            // Before the volumes, which only become longer.
            _mark = SyncedMark.Read(directory, meta.PackId);

            // Held open: the inode of a checkpoint that is replaced is given to a later one, which would pass for this one.
            using PlatformFile? held = directory.Open(PackNames.Checkpoint, FileOpening.Read);
            FileIdentity? checkpoint = held?.Identity;
            List<VolumeName> files = ListVolumes();
            List<VolumeName> leftovers = [];
            bool isCovered = useCheckpoint && TryLoadCheckpoint(files, leftovers, writable);
            if (isCovered && (_core.Hidden.IsEmpty || IsUnchanged(checkpoint, files)))
                return new LoadedPack(_core, leftovers, _coveredTail, _scannedLength, _lastNumber);

            // A compaction of the writer may come between the looks at its files; what it leaves is consistent again.
            if (directory.Identify(PackNames.Checkpoint) == checkpoint && TryLoadVolumes(files, leftovers, writable)
                && (_core.Hidden.IsEmpty || IsUnchanged(checkpoint, files)))
                return new LoadedPack(_core, leftovers, _coveredTail, _scannedLength, _lastNumber);
            Restart();
            if (tries == TriesMax)
            {
                throw new QueueInUseException(
                    $"The pack's volumes change each time they are opened: path={directory.Path}. Try again.");
            }
        }
    }

    /// <summary>
    /// Whether what seems to be missing is, and no compaction has come between the looks: it may have deleted a volume that was
    /// listed, or renamed its own while the list was made.
    /// </summary>
    private bool IsUnchanged(FileIdentity? checkpoint, List<VolumeName> files) =>
        directory.Identify(PackNames.Checkpoint) == checkpoint && ListVolumes().SequenceEqual(files);

    private void Restart()
    {
        _core.Dispose();
        _core = new PackCore(directory, meta, access);
        (_scannedLength, _coveredTail) = (0, VolumeHeader.Length);
    }

    private List<VolumeName> ListVolumes()
    {
        List<VolumeName> names = [];
        foreach (string file in directory.List(PackNames.Volumes))
        {
            if (VolumeName.TryParse(file, out VolumeName name))
                names.Add(name);
        }

        return [.. names.OrderBy(name => name.Last).ThenBy(name => name.Generation)];
    }

    /// <summary>
    /// With the checkpoint. What it knows is kept even when a volume is damaged, short or gone, so that no older value of a
    /// key comes to light. False when it cannot be used: it is damaged itself, or older than the volumes, or does not know a
    /// volume that was missing when it was written and is back.
    /// </summary>
    private bool TryLoadCheckpoint(List<VolumeName> files, List<VolumeName> leftovers, bool writable)
    {
        if (IndexCheckpoint.Read(directory, meta, _core.Index) is not { } checkpoint)
            return false;
        _core.Reach(checkpoint.Sequence);
        uint lastCovered = checkpoint.Volumes.Select(covered => covered.Name.Last).DefaultIfEmpty().Max();
        _lastNumber = Math.Max(_lastNumber, lastCovered);
        bool isLastMissing = false;
        foreach (CoveredVolume covered in checkpoint.Volumes)
        {
            bool isGone = !files.Contains(covered.Name) && files.Exists(other => other.Replaces(covered.Name));
            if (isGone)
                return false;
            isLastMissing |= !TryAddCovered(covered, writable) && covered.Name.Last == lastCovered;
        }

        foreach (HiddenStretch stretch in checkpoint.Hidden)
        {
            // What was damaged is whole again: the entries do not know it.
            if (IsRestored(stretch))
                return false;
            _core.Hide(stretch);
        }

        foreach ((ulong hash, NeedlePosition tombstone) in checkpoint.Deleted)
            _core.Hidden.OnDeleted(hash, tombstone);
        foreach (VolumeName name in files)
        {
            if (checkpoint.Volumes.Any(covered => covered.Name == name))
                continue;

            // A compaction is settled by a checkpoint that names its volumes. One that is not counts as a whole or not at all: a
            // later volume of it leaves out tombstones because an earlier one leaves out what they delete.
            bool isUnfinished = checkpoint.Volumes.Any(covered => covered.Name.Overlaps(name)) || IsCopy(name, files);
            bool isLost = !isUnfinished && (name.First <= lastCovered || name.Generation > 0);
            if (isLost)
                return false;
            if (isUnfinished)
                leftovers.Add(name);
            else if (!TryAdd(name, leftovers, writable))
                return false;
        }

        ReplayAll(
            checkpoint.Volumes.Where(covered => covered.Name.Last < lastCovered).Select(covered => covered.Name),
            [],
            lastCovered);

        // It may have taken needles since. Were their sequences given again, it could not be restored any more.
        if (isLastMissing)
            _core.LeapTo(_core.Sequence + NeedlesOfAVolume);
        return true;
    }

    /// <summary>Whether all that this volume replaces is still there.</summary>
    private static bool IsCopy(VolumeName name, List<VolumeName> files)
    {
        uint next = name.First;
        foreach (VolumeName file in files.Where(name.Replaces).OrderBy(file => file.First))
            next = file.First <= next ? Math.Max(next, file.Last + 1) : next;
        return name.Generation > 0 && next > name.Last;
    }

    private bool IsRestored(HiddenStretch stretch)
    {
        Volume? volume = _core.Volumes.InOrder.FirstOrDefault(volume => volume.Name == stretch.Name);
        if (volume is null || stretch.Position == HiddenStretch.WholeVolume)
            return false;
        if (stretch.Length == 0)
            return volume.File.Length > stretch.Position;
        using var scanner = new VolumeScanner(volume, stretch.Position, stretch.Position + stretch.Length);
        return scanner.TryNext(sequenceAbove: 0, wholeNeedle: false);
    }

    private bool TryAddCovered(CoveredVolume covered, bool writable)
    {
        if (TryOpen(covered.Name, writable) is not { } volume)
        {
            _core.Index.RemoveSlot(covered.Slot);
            _core.Hide(new HiddenStretch(covered.Name, HiddenStretch.WholeVolume, 0, Trace: null));
            return false;
        }

        _core.Volumes.Add(volume, covered.Slot);
        volume.Tail = volume.Synced = covered.Covered;
        volume.AddLive(covered.LiveLength, covered.LiveCount);
        volume.AddTombstone(covered.TombstoneLength);
        if (volume.File.Length < covered.Covered)
            ReportShort(volume);

        return true;
    }

    private bool TryLoadVolumes(List<VolumeName> files, List<VolumeName> leftovers, bool writable)
    {
        Restart();
        leftovers.Clear();
        foreach (VolumeName name in files)
        {
            if (files.Any(other => other.Replaces(name)))
                leftovers.Add(name);
            else if (!TryAdd(name, leftovers, writable))
                return false;
        }

        ReplayAll([], _core.Volumes.Gaps, lastReported: 0);
        return true;
    }

    private void ReportShort(Volume volume) => _core.Report(PackDamage.At(
        volume.Name, volume.File.Length, 0, "The volume is shorter than it was. What stood at its end is lost."));

    /// <summary>Scans what is not covered yet. The volumes before the last covered one were full when it was written.</summary>
    private void ReplayAll(IEnumerable<VolumeName> full, IReadOnlyList<VolumeName> gaps, uint lastReported)
    {
        HashSet<VolumeName> known = [.. full];
        var replay = new PackReplay(_core, hasLock: _isWriter);
        IReadOnlyList<Volume> volumes = _core.Volumes.InOrder;
        for (int i = 0; i < volumes.Count; i++)
        {
            Volume volume = volumes[i];
            bool isLast = i == volumes.Count - 1;
            if (isLast)
                _coveredTail = volume.Tail;
            else
                volume.EndBefore(volumes[i + 1]);

            // In the order of the needles: what is deleted behind a gap is known to be gone.
            foreach (VolumeName gap in gaps.Where(gap => gap.Last + 1 == volume.Name.First))
                _core.Hide(new HiddenStretch(gap, HiddenStretch.WholeVolume, 0, Trace: null));
            if (known.Contains(volume.Name))
                continue;
            _scannedLength += Math.Max(0, volume.File.Length - volume.Tail);
            replay.Replay(volume, volume.Tail, isLast, proven: volume.Tail);
            if (!isLast)
                CheckEnd(volume, volumes[i + 1]);
        }

        // The needle of the highest sequence may be gone with a compaction. Were its number given again, a volume that is
        // clean as of it would seem to be so of a later delete.
        foreach (Volume volume in volumes)
            _core.LeapTo(volume.CleanAsOf);
        uint last = volumes.Select(volume => volume.Name.Last).DefaultIfEmpty().Max();
        CheckMark(volumes.LastOrDefault(), Math.Max(last, lastReported));
        _lastNumber = Math.Max(_lastNumber, Math.Max(last, _mark.VolumeNumber));
    }

    /// <summary>
    /// The next volume knows the sequence of the last needle before it, and was made when this one was on disk. When both were
    /// filled by puts, and the scan has not come that far, the end of this one is gone. That needle may have stood before this
    /// volume, and be gone with a compaction: then this one's own header, if it can be read, knows it too.
    /// </summary>
    private void CheckEnd(Volume volume, Volume next)
    {
        bool isComparable = volume.Name.Generation == 0 && next.Name.Generation == 0 && volume.Name.Last + 1 == next.Name.First;
        bool isBeginKnown =
            !volume.HasHeader || volume.Tail > VolumeHeader.Length || volume.SequenceBefore > 0 || volume.Name.First == 1;
        bool isEndKnown = _core.Hidden.Stretches.Any(stretch =>
            stretch.Name == volume.Name && stretch.Position + stretch.Length == volume.Tail);
        bool isShort = Math.Max(_core.Sequence, volume.SequenceBefore) < next.SequenceBefore;
        if (isComparable && isBeginKnown && !isEndKnown && isShort)
            _core.Hide(new HiddenStretch(volume.Name, volume.Tail, 0, Trace: null));
    }

    /// <summary>The mark tells of what was on disk at the end of the pack and is not there any more.</summary>
    private void CheckMark(Volume? last, uint lastNumber)
    {
        if (_mark.VolumeNumber > lastNumber)
        {
            var missing = new VolumeName(lastNumber + 1, _mark.VolumeNumber, 0);
            _core.Hide(new HiddenStretch(missing, HiddenStretch.WholeVolume, 0, Trace: null));
            _core.LeapTo(_core.Sequence + NeedlesOfAVolume);
        }
        else if (last is not null && last.File.Length < _mark.SyncedOf(last.Name) && last.File.Length >= _coveredTail)
        {
            _core.Hide(new HiddenStretch(last.Name, last.File.Length, 0, Trace: null));
        }
    }

    /// <summary>Adds a volume; false when it is gone. An empty one for which there is no slot is a leftover.</summary>
    private bool TryAdd(VolumeName name, List<VolumeName> leftovers, bool writable)
    {
        if (TryOpen(name, writable) is not { } volume)
            return false;
        bool isTooMany = _core.Volumes.FreeCount == 0 && volume.File.Length <= VolumeHeader.Length;
        if (isTooMany)
        {
            leftovers.Add(name);
            volume.Retire();
        }
        else
        {
            _core.Volumes.Add(volume);
        }

        return true;
    }

    private Volume? TryOpen(VolumeName name, bool writable)
    {
        PlatformFile? file = directory.Open(name.Path, writable ? FileOpening.ReadWrite : FileOpening.Read);
        if (file is null)
            return null;
        Span<byte> bytes = stackalloc byte[VolumeHeader.Length];
        int read = file.ReadAt(bytes, 0);
        VolumeHeader? header = VolumeHeader.Parse(bytes[..read], meta.PackId, name);
        if (header is null)
        {
            _core.Report(PackDamage.At(
                name, 0, read, "The volume's header is damaged. Its needles are looked for all the same."));
        }

        return new Volume(name, file, meta.PackId)
        {
            HasHeader = header is not null,
            CleanAsOf = header?.CleanAsOf ?? 0,
            SequenceBefore = header?.SequenceBefore ?? 0,
            PreviousEnd = header?.PreviousEnd ?? 0,
            Tail = VolumeHeader.Length,
        };
    }
}

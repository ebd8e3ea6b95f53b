using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Loading;

/// <summary>A pack as found on disk.</summary>
/// <param name="Core">The pack in memory.</param>
/// <param name="Leftovers">Volumes that no longer count; a writer removes them.</param>
/// <param name="CoveredTail">
/// The checkpoint covers the last volume up to here; the end of the volume's header if there is no checkpoint.
/// </param>
/// <param name="ScannedLength">How many bytes came after what the checkpoint covers.</param>
/// <param name="LastNumber">
/// The highest number of a volume that exists, or that the checkpoint or the mark names; 0 for an empty pack.
/// </param>
internal sealed record LoadedPack(
    PackCore Core, IReadOnlyList<VolumeName> Leftovers, long CoveredTail, long ScannedLength, uint LastNumber);

/// <summary>
/// Opens a pack's volumes and builds the index, from the checkpoint and what was written after it, or from the volumes alone.
/// Changes no file.
/// </summary>
internal sealed class PackLoader(HeldDirectory directory, PackMeta meta, PackAccess access)
{
    /// <summary>How often a reader starts again because a compaction removed the files that it was about to open.</summary>
    private const int TriesMax = 1000;

    /// <summary>More needles than a volume can hold: 16 GiB hold fewer, even of the shortest ones.</summary>
    private const ulong NeedlesOfAVolume = 1UL << 32;

    private PackCore _core = new(directory, meta, access);
    private SyncedMark _mark = new(Guid.Empty, 0, 0);
    private bool _isWriter;
    private uint _lastNumber;
    private long _scannedLength;
    private long _coveredTail = VolumeHeader.Length;

    /// <summary>Reads `pack.meta`; null if it is missing.</summary>
    public static PackMeta? ReadMeta(HeldDirectory directory)
    {
        using PlatformFile? file = directory.Open(PackNames.Meta, FileOpening.Read);
        if (file is null)
            return null;
        byte[] bytes = new byte[PackMeta.Length + 1];
        int read = file.ReadAt(bytes, 0);
        return PackMeta.Parse(bytes.AsSpan(0, read), file.Path);
    }

    /// <summary>Loads the pack. With <paramref name="useCheckpoint"/> false, builds the index from the volumes alone.</summary>
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
            // Read before the volumes, which only become longer.
            _mark = SyncedMark.Read(directory, meta.PackId);

            // Held open: otherwise the system could give this inode to a later checkpoint, which would then pass for this one.
            using PlatformFile? held = directory.Open(PackNames.Checkpoint, FileOpening.Read);
            FileIdentity? checkpoint = held?.Identity;
            List<VolumeName> files = ListVolumes();
            List<VolumeName> leftovers = [];
            bool isCovered = useCheckpoint && TryLoadCheckpoint(files, leftovers, writable);
            if (isCovered && (_core.Hidden.IsEmpty || IsUnchanged(checkpoint, files)))
                return new LoadedPack(_core, leftovers, _coveredTail, _scannedLength, _lastNumber);

            // The writer's compaction may run between the looks at its files. What it leaves is consistent again.
            if (directory.Identify(PackNames.Checkpoint) == checkpoint && TryLoadVolumes(files, leftovers, writable)
                && (_core.Hidden.IsEmpty || IsUnchanged(checkpoint, files)))
                return new LoadedPack(_core, leftovers, _coveredTail, _scannedLength, _lastNumber);
            Restart();
            if (tries == TriesMax)
            {
                throw new PackInUseException(
                    $"The pack's volumes change each time they are opened: path={directory.Path}. Try again.");
            }
        }
    }

    /// <summary>
    /// Whether what seems to be missing really is, and no compaction ran between the looks. A compaction may have deleted a
    /// volume that was listed, or renamed its own while the list was made.
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
    /// Loads with the checkpoint. Keeps what the checkpoint knows even if a volume is damaged, short or missing, so that no older
    /// value of a key comes back. False if the checkpoint cannot be used: it is damaged, or older than the volumes, or does not
    /// know a volume that was missing when it was written and is back.
    /// </summary>
    private bool TryLoadCheckpoint(List<VolumeName> files, List<VolumeName> leftovers, bool writable)
    {
        if (IndexCheckpoint.Read(directory, meta, _core.Index) is not { } checkpoint)
            return false;
        // After a loss the writer leapt, and the number is not the exact one: a volume that names it would make the one before it
        // look shortened once what was lost is back.
        if (checkpoint.Hidden.Count > 0)
            _core.LeapTo(checkpoint.Sequence);
        else
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

        IReadOnlyList<Volume> volumes = _core.Volumes.InOrder;
        foreach (HiddenStretch stretch in checkpoint.Hidden)
        {
            // What was damaged is intact again, and the entries do not include it.
            if (IsRestored(stretch, volumes))
                return false;
            _core.Hide(stretch);
        }

        foreach ((ulong hash, NeedlePosition tombstone) in checkpoint.Deleted)
            _core.Hidden.OnDeleted(hash, tombstone);
        foreach (VolumeName name in files)
        {
            if (checkpoint.Volumes.Any(covered => covered.Name == name))
                continue;

            // A compaction is complete once a checkpoint names its volumes. Until then either all of its volumes count or none: a
            // later one leaves out a tombstone because an earlier one leaves out what the tombstone deletes.
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

        // It may have received needles since. If their sequences were used again, the volume could not be restored.
        if (isLastMissing)
            _core.LeapTo(_core.Sequence + NeedlesOfAVolume);
        return true;
    }

    /// <summary>Whether everything that this volume replaces still exists.</summary>
    private static bool IsCopy(VolumeName name, List<VolumeName> files)
    {
        uint next = name.First;
        foreach (VolumeName file in files.Where(name.Replaces).OrderBy(file => file.First))
            next = file.First <= next ? Math.Max(next, file.Last + 1) : next;
        return name.Generation > 0 && next > name.Last;
    }

    private static bool IsRestored(HiddenStretch stretch, IReadOnlyList<Volume> volumes)
    {
        Volume? volume = volumes.FirstOrDefault(volume => volume.Name == stretch.Name);
        if (volume is null || stretch.Position == HiddenStretch.WholeVolume)
            return false;
        if (stretch.Length == 0)
            return volume.File.Length > stretch.Position;
        using var scanner = new VolumeScanner(
            volume, stretch.Position, stretch.Position + stretch.Length, VolumeScanner.LookLength);
        return scanner.TryNext(sequenceAbove: 0, wholeNeedle: false);
    }

    private bool TryAddCovered(CoveredVolume covered, bool writable)
    {
        if (TryOpen(covered.Name, writable) is not { } volume)
        {
            _core.Index.RemoveSlots(new HashSet<int> { covered.Slot });
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
        volume.Name, volume.File.Length, 0, "The volume is shorter than it was. What was at its end is lost."));

    /// <summary>
    /// Scans what is not covered yet. The volumes before the last covered one were full when the checkpoint was written.
    /// </summary>
    private void ReplayAll(IEnumerable<VolumeName> full, IReadOnlyList<VolumeName> gaps, uint lastReported)
    {
        HashSet<VolumeName> known = [.. full];
        var replay = new PackReplay(_core, hasLock: _isWriter);
        IReadOnlyList<Volume> volumes = _core.Volumes.InOrder;
        bool isEndLost = false;
        for (int i = 0; i < volumes.Count; i++)
        {
            Volume volume = volumes[i];
            bool isLast = i == volumes.Count - 1;
            if (isLast)
                _coveredTail = volume.Tail;
            else
                volume.EndBefore(volumes[i + 1]);

            // In the order of the needles: a key that is deleted after a gap is known to be deleted.
            foreach (VolumeName gap in gaps.Where(gap => gap.Last + 1 == volume.Name.First))
                _core.Hide(new HiddenStretch(gap, HiddenStretch.WholeVolume, 0, Trace: null));
            if (known.Contains(volume.Name))
                continue;
            _scannedLength += Math.Max(0, volume.File.Length - volume.Tail);
            long covered = volume.Tail;
            replay.Replay(volume, covered, isLast, proven: covered);
            isEndLost |= CheckLength(volume, covered);
            if (!isLast)
                CheckEnd(volume, volumes[i + 1]);
        }

        // A compaction may have dropped the needle with the highest sequence. If its number were used again, a volume that is
        // clean as of it would wrongly seem to be clean as of a later delete.
        foreach (Volume volume in volumes)
            _core.LeapTo(volume.CleanAsOf);
        uint last = volumes.Select(volume => volume.Name.Last).DefaultIfEmpty().Max();
        isEndLost |= CheckMark(Math.Max(last, lastReported));

        // What is lost may come back, and its sequences must not have been used again.
        if (isEndLost)
            _core.LeapTo(_core.Sequence + NeedlesOfAVolume);
        _lastNumber = Math.Max(_lastNumber, Math.Max(last, _mark.VolumeNumber));
    }

    /// <summary>
    /// Detects a volume whose end is lost. The next volume stores the sequence of the last needle before it, and was made when
    /// this volume was on disk. If puts filled both, and the scan has not reached that sequence, the end of this volume is lost.
    /// But that needle may have been before this volume, and a compaction may have dropped it: then this volume's own header, if
    /// it can be read, stores its sequence too.
    /// </summary>
    private void CheckEnd(Volume volume, Volume next)
    {
        bool isComparable = volume.Name.Generation == 0 && volume.Name.Last + 1 == next.Name.First;
        bool isBeginKnown =
            !volume.HasHeader || volume.Tail > VolumeHeader.Length || volume.SequenceBefore > 0 || volume.Name.First == 1;
        bool isShort = Math.Max(_core.Sequence, volume.SequenceBefore) < next.SequenceBefore;
        if (isComparable && isBeginKnown && isShort && !HiddenUpTo(volume, volume.Tail).Any())
            _core.Hide(new HiddenStretch(volume.Name, volume.Tail, 0, Trace: null));
    }

    /// <summary>
    /// Detects a file that is shorter than it was. A file has its header before it has its name, so without one nothing tells
    /// what followed. A copy's header stores where the copy ends, and the mark how much of the last volume was on disk.
    /// </summary>
    /// <param name="volume">The volume, whose needles have been read.</param>
    /// <param name="covered">The checkpoint knows everything before this position.</param>
    /// <returns>Whether needles after that are lost.</returns>
    private bool CheckLength(Volume volume, long covered)
    {
        long length = volume.File.Length;
        long known = Math.Max(volume.CopyEnd, _mark.SyncedOf(volume.Name));
        bool isHeaderLost = length < VolumeHeader.Length && covered == VolumeHeader.Length;
        long from = Math.Max(length, covered);
        if (from >= known && !isHeaderLost)
            return false;

        // A stretch of one needle hides one key, and not what followed.
        if (!HiddenUpTo(volume, from).Any(stretch => stretch.Trace is null))
            _core.Hide(new HiddenStretch(volume.Name, from, 0, Trace: null));
        return true;
    }

    /// <summary>What the scan has hidden of a volume right before a position.</summary>
    private IEnumerable<HiddenStretch> HiddenUpTo(Volume volume, long position) => _core.Hidden.Stretches.Where(stretch =>
        stretch.Name == volume.Name && stretch.Position + stretch.Length == position);

    /// <summary>Detects volumes at the end of the pack that the mark names and that are missing now.</summary>
    private bool CheckMark(uint lastNumber)
    {
        if (_mark.VolumeNumber <= lastNumber)
            return false;
        var missing = new VolumeName(lastNumber + 1, _mark.VolumeNumber, 0);
        _core.Hide(new HiddenStretch(missing, HiddenStretch.WholeVolume, 0, Trace: null));
        return true;
    }

    /// <summary>Adds a volume; false if it is missing. An empty one for which there is no slot is a leftover.</summary>
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
        int read = Volume.ReadHeader(file, bytes);
        VolumeHeader? header = VolumeHeader.Parse(bytes[..read], meta.PackId, name);
        if (header is null)
        {
            _core.Report(PackDamage.At(
                name, 0, read, "The volume's header is damaged. Its needles are read if they are valid."));
        }

        return new Volume(name, file, meta.PackId)
        {
            HasHeader = header is not null,
            CleanAsOf = header?.CleanAsOf ?? 0,
            SequenceBefore = header?.SequenceBefore ?? 0,
            PreviousEnd = header?.PreviousEnd ?? 0,
            CopyEnd = header?.CopyEnd ?? 0,
            Tail = VolumeHeader.Length,
        };
    }
}

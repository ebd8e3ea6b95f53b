using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs;

/// <summary>
/// Replaces volumes that hold much garbage by shorter ones (docs/PACKS.md section 4), first one by one, then neighbours that
/// fit into one volume together. Works under the maintenance lock; puts, deletes and gets go on. May be killed anywhere.
/// </summary>
internal sealed class PackCompactor(PackWriter writer)
{
    private readonly List<MovedNeedle> _moved = [];
    private int _replaced;
    private int _made;
    private int _skipped;

    private PackCore Core => writer.Core;

    public PackCompaction Run(double garbageMin, CancellationToken cancellationToken)
    {
        long before = TotalLength();
        EndActive(garbageMin);
        foreach (Volume volume in Full())
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (IsWorth(volume, garbageMin))
                Replace([volume]);
        }

        foreach (List<Volume> run in Neighbours())
        {
            cancellationToken.ThrowIfCancellationRequested();
            Replace(run);
        }

        return new PackCompaction(_replaced, _made, Math.Max(0, before - TotalLength()), _skipped);
    }

    private static bool IsWorth(Volume volume, double garbageMin)
    {
        long used = volume.Tail - VolumeHeader.Length;
        long garbage = used - volume.LiveLength;
        return garbage > 0 && garbage >= used * garbageMin;
    }

    private long TotalLength() => Core.Volumes.InOrder.Sum(static volume => volume.Tail);

    /// <summary>The volume that takes puts is compacted too when it is worth it: the next put goes into a new one.</summary>
    private void EndActive(double garbageMin)
    {
        using (writer.Appender.Gate.Enter())
        {
            if (writer.Appender.Active is { } active && IsWorth(active, garbageMin))
                writer.Appender.EndVolume();
        }
    }

    /// <summary>All volumes that take no puts any more.</summary>
    private List<Volume> Full()
    {
        using (writer.Appender.Gate.Enter())
            return [.. Core.Volumes.InOrder.Where(volume => volume != writer.Appender.Active)];
    }

    /// <summary>
    /// Runs of volumes that are each less than half full and fit into one together. Between two of a run no number is missing:
    /// a lost volume whose number another one bears could not be restored.
    /// </summary>
    private IEnumerable<List<Volume>> Neighbours()
    {
        List<Volume> run = [];
        long length = 0;
        foreach (Volume volume in Full())
        {
            bool fits = volume.Tail < Core.Meta.VolumeLength / 2 && length + volume.Tail <= Core.Meta.VolumeLength
                && (run.Count == 0 || volume.Name.First == run[^1].Name.Last + 1);
            if (!fits && run.Count > 1)
                yield return run;
            if (!fits)
                (run, length) = ([], 0);
            if (volume.Tail < Core.Meta.VolumeLength / 2)
            {
                run.Add(volume);
                length += volume.Tail;
            }
        }

        if (run.Count > 1)
            yield return run;
    }

    private void Replace(List<Volume> run)
    {
        VolumeName name = NameFor(run);
        if (name.Generation > VolumeName.GenerationMax)
            return;
        Core.Volumes.RequireFree(1);
        _moved.Clear();
        Volume? made;
        try
        {
            made = Copy(run, name);
        }
        catch (QueueCorruptException)
        {
            // What cannot be read is not thrown away: it may be worth something to somebody with other tools.
            _ = Core.Directory.Delete(name.Path + PackNames.TemporarySuffix);
            _skipped += run.Count;
            return;
        }
        catch (QueueDiskException)
        {
            _ = Core.Directory.Delete(name.Path + PackNames.TemporarySuffix);
            throw;
        }

        ProtocolSteps.Reach(ProtocolStep.PackCompactionRenamed);
        Core.Volumes.Add(made);
        _made++;
        MoveEntries(made);
        ProtocolSteps.Reach(ProtocolStep.PackEntriesMoved);
        run.ForEach(Core.Volumes.Remove);
        writer.MarkChanged();
        writer.CheckpointHeld();
        foreach (Volume old in run)
        {
            _ = Core.Directory.Delete(old.Name.Path);
            ProtocolSteps.Reach(ProtocolStep.PackVolumeDeleted);
            _replaced++;
        }

        Core.Directory.FlushEntries(PackNames.Volumes);
    }

    /// <summary>
    /// The run's numbers, with a generation above that of every file that bears one of them: a compaction that failed behind its
    /// renaming has left one that no volume here stands for.
    /// </summary>
    private VolumeName NameFor(List<Volume> run)
    {
        var name = new VolumeName(run[0].Name.First, run[^1].Name.Last, 0);
        uint generation = run.Max(volume => volume.Name.Generation);
        foreach (string file in Core.Directory.List(PackNames.Volumes))
        {
            if (VolumeName.TryParse(file, out VolumeName other) && other.Overlaps(name))
                generation = Math.Max(generation, other.Generation);
        }

        return name with { Generation = generation + 1 };
    }

    /// <summary>
    /// The least that the volumes before this number are clean as of; 0 when one of them is missing, because it may be restored.
    /// </summary>
    private ulong CleanAsOfBefore(uint number)
    {
        ulong cleanAsOf = ulong.MaxValue;
        uint next = 1;
        foreach (Volume volume in Core.Volumes.InOrder.Where(volume => volume.Name.Last < number))
        {
            cleanAsOf = volume.Name.First == next ? Math.Min(cleanAsOf, volume.CleanAsOf) : 0;
            if (cleanAsOf == 0)
                return 0;
            next = volume.Name.Last + 1;
        }

        return next == number ? cleanAsOf : 0;
    }

    private Volume Copy(List<Volume> run, VolumeName name)
    {
        ulong cleanAsOf;
        using (writer.Appender.Gate.Enter())
            cleanAsOf = Core.Sequence;
        ulong olderCleanAsOf = CleanAsOfBefore(name.First);
        uint seed = NeedleLayout.VolumeSeed(Core.Meta.PackId, name.Last, name.Generation);
        return PackAppender.MakeVolume(Core, new VolumeHeader(name, cleanAsOf, SequenceBefore: 0), file =>
        {
            using var copier = new NeedleCopier(file, seed);
            foreach (Volume old in run)
                Copy(old, olderCleanAsOf, copier);
            copier.Flush();

            // What was left out is dead because of needles that may not be on disk yet: without them the copy would be all that a
            // power cut leaves.
#if MFQ_PLANTED
            if (!PlantedFaults.Has(PlantedFault.CompactionNotFlushed))
#endif
            writer.Appender.Flush();
            ProtocolSteps.Reach(ProtocolStep.PackCompactionCopied);
        });
    }

    private void Copy(Volume old, ulong olderCleanAsOf, NeedleCopier copier)
    {
        using var scanner = new VolumeScanner(old, VolumeHeader.Length, old.Tail);
        ulong sequence = 0;
        while (!scanner.IsAtEnd)
        {
            if (!scanner.TryNext(sequence, wholeNeedle: true))
                throw PackLookup.Damaged(old, scanner.Position);
            sequence = scanner.Needle.Sequence;
            if (scanner.Needle.Kind == NeedleKind.Value)
                CopyIfLive(scanner, copier);
            else if (IsNeeded(scanner, olderCleanAsOf))
                copier.Copy(scanner);
        }
    }

    private void CopyIfLive(VolumeScanner scanner, NeedleCopier copier)
    {
        ulong hash = Core.Lookup.HashOf(scanner.Key);
        ulong entry = Core.Layout.Pack(hash, scanner.Volume.Slot, scanner.NeedlePosition, scanner.Needle.Length);
        if (!Core.Index.Contains(hash, entry))
            return;
        uint units = (uint)(copier.Copy(scanner) / NeedleLayout.Unit);
        _moved.Add(new MovedNeedle(hash, entry, units, scanner.Needle.Length));
    }

    /// <summary>
    /// A tombstone is needed while an older needle of its key may exist in a volume before the run; not when a newer value of
    /// the key is there, for which the same question is asked again should it be deleted.
    /// </summary>
    private bool IsNeeded(VolumeScanner tombstone, ulong olderCleanAsOf)
    {
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.TombstonesDropped))
            return false;
#endif
        if (tombstone.Needle.Sequence <= olderCleanAsOf)
            return false;
        ReadOnlySpan<byte> key = tombstone.Key;
        return !(Core.TryFindPlace(key, Core.Lookup.HashOf(key), out NeedlePlace place) && place.IsReadable);
    }

    /// <summary>
    /// Lets the entries that still point into the run point to the copies. An entry that is still there means the same needle as
    /// before, because nothing is put into the run, so no file is read and nothing can fail half-way.
    /// </summary>
    private void MoveEntries(Volume made)
    {
        foreach (MovedNeedle needle in _moved)
        {
            ulong entry = Core.Layout.Pack(needle.Hash, made.Slot, (long)needle.Units * NeedleLayout.Unit, needle.Length);
            using (writer.Appender.Gate.Enter())
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
}

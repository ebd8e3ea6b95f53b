using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>The oldest volumes, which are about to be evicted, and the empty one that takes their place.</summary>
internal sealed record PackEviction(IReadOnlyList<Volume> Evicted, Volume Made)
{
    /// <summary>The slots of the evicted volumes.</summary>
    public IReadOnlySet<int> Slots { get; } = Evicted.Select(static volume => volume.Slot).ToHashSet();
}

/// <summary>
/// Makes room in a pack whose length is limited: an empty volume takes the place of the oldest ones (docs/PACKS.md section 4). On
/// disk this is a compaction that keeps nothing. Runs under the maintenance lock; gets continue.
/// <para>The evicted objects are there until a durable checkpoint says that they are not. Otherwise a delete would write nothing,
/// because its key is gone already, and a crash would bring back what was deleted.</para>
/// </summary>
internal sealed class PackEvictor(PackWriter writer)
{
    /// <summary>
    /// Empty volumes at the beginning are joined with the next eviction only when there are this many: each joining takes one of
    /// the 9,999 generations.
    /// </summary>
    private const int EmptyMax = 64;

    private PackCore Core => writer.Core;

    /// <summary>
    /// Evicts the oldest volumes until the needles of all others take this many bytes at most. Returns how many objects are gone.
    /// </summary>
    public long Run(long lengthMax)
    {
        (List<Volume> run, VolumeName name) = Choose(lengthMax, joinsEmpty: true);
        if (name.Generation > VolumeName.GenerationMax)
            (run, name) = Choose(lengthMax, joinsEmpty: false);
        if (run.Count == 0)
            return 0;
        if (name.Generation > VolumeName.GenerationMax)
        {
            throw new PackFullException($"The oldest volume was compacted as often as it can be: path={Core.Directory.Path}, "
                + $"file={run[0].Name.Path}. Copy the pack into a new one, or delete it.");
        }

        var eviction = new PackEviction(run, MakeEmpty(name, run[0]));
        ProtocolSteps.Reach(ProtocolStep.PackEvictionMade);
        if (PlantedFaults.Has(PlantedFault.PackEvictionNotSettled))
            return Forget(eviction);
        Settle(eviction);
        long count = Forget(eviction);
        ProtocolSteps.Reach(ProtocolStep.PackEntriesEvicted);
        foreach (Volume volume in run)
        {
            _ = Core.Directory.Delete(volume.Name.Path);
            ProtocolSteps.Reach(ProtocolStep.PackVolumeDeleted);
        }

        Core.Directory.FlushEntries(PackNames.Volumes);
        return count;
    }

    /// <summary>
    /// The oldest volumes that have to go, and the name of the empty one. It covers the numbers of lost volumes too, whose
    /// objects were as old. No volumes if none have to go.
    /// </summary>
    private (List<Volume> Run, VolumeName Name) Choose(long lengthMax, bool joinsEmpty)
    {
        using (writer.Appender.Gate.Take())
        {
            IReadOnlyList<Volume> volumes = Core.Volumes.InOrder;
            long length = volumes.Sum(static volume => volume.NeedlesLength);
            int empty = volumes.TakeWhile(static volume => volume.NeedlesLength == 0).Count();
            int start = joinsEmpty && empty >= EmptyMax ? 0 : empty;
            List<Volume> run = [];
            foreach (Volume volume in volumes.Skip(start))
            {
                if (length <= lengthMax)
                    break;
                run.Add(volume);
                length -= volume.NeedlesLength;
            }

            // Puts that come meanwhile go into a volume of their own.
            if (run.Count == 0)
                return ([], default);
            if (run[^1] == writer.Appender.Active)
                writer.Appender.EndVolume();
            uint first = start == 0 ? 1 : volumes[start - 1].Name.Last + 1;
            return (run, PackCompactor.NameFor(Core.Directory, first, run[^1].Name.Last));
        }
    }

    private Volume MakeEmpty(VolumeName name, Volume oldest)
    {
        Core.Volumes.RequireFree(1);
        ulong cleanAsOf;
        using (writer.Appender.Gate.Take())
        {
            // As for a compaction: what is missing or damaged elsewhere may come back, with needles older than now.
            bool isAllThere = Core.Volumes.Gaps.All(gap => gap.Overlaps(name))
                && Core.Hidden.Stretches.All(stretch => stretch.Name.Overlaps(name));
            cleanAsOf = isAllThere ? Core.Sequence : 0;
        }

        long previousEnd = oldest.Name.First == name.First ? oldest.PreviousEnd : 0;

        // The sequence that is in the header is not lost by a power loss.
        Volume made = PackAppender.MakeVolume(
            Core, new VolumeHeader(name, cleanAsOf, SequenceBefore: 0, previousEnd), _ => writer.Appender.Flush());
        Core.Volumes.Add(made);
        return made;
    }

    /// <summary>
    /// Writes the checkpoint that makes the eviction count. If it could not be written, nothing has happened. If it bears its
    /// name, but that may not be on disk, the eviction counts in memory, and the old files stay for the next opening, which knows
    /// which checkpoint there is.
    /// </summary>
    private void Settle(PackEviction eviction)
    {
        FileIdentity? before = Core.Directory.Identify(PackNames.Checkpoint);
        try
        {
            writer.CheckpointHeld(eviction);
        }
        catch
        {
            if (Core.Directory.Identify(PackNames.Checkpoint) != before)
                _ = Forget(eviction);
            else
                Undo(eviction.Made);
            throw;
        }
    }

    private void Undo(Volume made)
    {
        Core.Volumes.Remove(made);
        try
        {
            _ = Core.Directory.Delete(made.Name.Path);
        }
        catch (QueueDiskException)
        {
            // The next opening removes it. The caller reports its own error.
        }
    }

    /// <summary>
    /// Takes the objects out of the index, then their volumes. A get that has found an entry before looks again when it misses
    /// the volume.
    /// </summary>
    private long Forget(PackEviction eviction)
    {
        using (writer.Appender.Gate.Take())
        {
            long count = eviction.Evicted.Sum(static volume => volume.LiveCount);
            Core.Index.RemoveSlots(eviction.Slots);
            Core.Hidden.Remove(eviction.Made.Name);
            foreach (Volume volume in eviction.Evicted)
                Core.Volumes.Remove(volume);
            return count;
        }
    }
}

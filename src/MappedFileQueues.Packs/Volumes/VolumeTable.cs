using System.Globalization;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// The open volumes. Each has a slot, whose number is part of the index's entries. Any thread may look; changes run under the
/// table's lock.
/// </summary>
/// <param name="packPath">The pack's directory, for messages.</param>
/// <param name="mappedLength">The length that volumes may reach which are mapped for gets; 0 if volumes are read instead.</param>
internal sealed class VolumeTable(string packPath, long mappedLength) : IDisposable
{
    /// <summary>The number of slots that values leave free: one for a volume of tombstones, and one for a compaction.</summary>
    public const int ReservedForTombstones = 2;

    /// <summary>
    /// The number of slots that tombstones leave free: without it no compaction could make a full pack smaller.
    /// </summary>
    public const int ReservedForCompaction = 1;

    private readonly object _gate = new();
    private readonly Volume?[] _slots = new Volume?[IndexEntry.SlotCount];
    private int _slotsUsed;
    private int _count;

    /// <summary>True once nothing can be read any more.</summary>
    public bool IsDisposed { get; private set; }

    /// <summary>The public type that errors about a disposed pack name.</summary>
    public required Type Owner { get; init; }

    /// <summary>The volumes in the order of their numbers, which is the order of their needles.</summary>
    public IReadOnlyList<Volume> InOrder
    {
        get
        {
            using (new UninterruptedLock(_gate))
                return [.. _slots.AsSpan(0, _slotsUsed).ToArray().OfType<Volume>().OrderBy(volume => volume.Name.Last)];
        }
    }

    /// <summary>The bytes that the needles of all volumes take together.</summary>
    public long NeedlesLength
    {
        get
        {
            long length = 0;
            using (new UninterruptedLock(_gate))
            {
                foreach (Volume? volume in _slots.AsSpan(0, _slotsUsed))
                    length += volume?.NeedlesLength ?? 0;
            }

            return length;
        }
    }

    /// <summary>The numbers that are missing before an existing volume: each number from 1 on belongs to a volume.</summary>
    public IReadOnlyList<VolumeName> Gaps
    {
        get
        {
            List<VolumeName> gaps = [];
            uint number = 1;
            foreach (Volume volume in InOrder)
            {
                if (volume.Name.First > number)
                    gaps.Add(new VolumeName(number, volume.Name.First - 1, 0));
                number = volume.Name.Last + 1;
            }

            return gaps;
        }
    }

    /// <summary>The number of volumes that can still be added.</summary>
    public int FreeCount
    {
        get
        {
            using (new UninterruptedLock(_gate))
                return IndexEntry.SlotCount - _count;
        }
    }

    /// <summary>The volume in a slot; null if the slot is free.</summary>
    public Volume? At(int slot) => Volatile.Read(ref _slots[slot]);

    /// <summary>Adds a volume, in the first free slot or a given one.</summary>
    public void Add(Volume volume, int? wanted = null)
    {
        using (new UninterruptedLock(_gate))
        {
            int slot = wanted ?? Array.IndexOf(_slots, null);
            if (slot is < 0 or >= IndexEntry.SlotCount || _slots[slot] is not null)
                throw Full();
            volume.Slot = slot;
            if (mappedLength > 0)
                volume.Mapping = new VolumeMapping(volume.File, mappedLength);
            Volatile.Write(ref _slots[slot], volume);
            _slotsUsed = Math.Max(_slotsUsed, slot + 1);
            _count++;
        }
    }

    /// <summary>Called before a volume's file is made.</summary>
    /// <exception cref="PackFullException">Fewer slots are free.</exception>
    public void RequireFree(int count)
    {
        if (FreeCount < count)
            throw Full();
    }

    /// <summary>Called before a read.</summary>
    /// <exception cref="ObjectDisposedException">Nothing can be read any more.</exception>
    public void ThrowIfDisposed() => ObjectDisposedException.ThrowIf(IsDisposed, Owner);

    /// <summary>Removes a volume. Its file is closed when its last user releases it.</summary>
    public void Remove(Volume volume)
    {
        using (new UninterruptedLock(_gate))
        {
            Volatile.Write(ref _slots[volume.Slot], null);
            _count--;
        }

        volume.Retire();
    }

    /// <summary>Removes all volumes.</summary>
    public void Dispose()
    {
        IsDisposed = true;
        foreach (Volume volume in InOrder)
            Remove(volume);
    }

    private PackFullException Full() => new(
        string.Create(CultureInfo.InvariantCulture,
            $"The pack has no room for another volume: path={packPath}, limit={IndexEntry.SlotCount}. ")
        + "Compact it, or make a pack with a larger VolumeSize.");
}

using System.Globalization;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// The open volumes, each in a slot whose number stands in the index's entries. Any thread may look; volumes come and go under
/// the table's lock.
/// </summary>
/// <param name="packPath">The pack's directory, for messages.</param>
/// <param name="mappedLength">How long volumes may become that are to be mapped for gets; 0 when they are read.</param>
internal sealed class VolumeTable(string packPath, long mappedLength) : IDisposable
{
    /// <summary>So many slots values leave: one to a volume of tombstones, and one to a compaction.</summary>
    public const int ReservedForTombstones = 2;

    /// <summary>So many slots tombstones leave: without it a compaction could not make a full pack smaller.</summary>
    public const int ReservedForCompaction = 1;

    private readonly Lock _gate = new();
    private readonly Volume?[] _slots = new Volume?[IndexEntry.SlotCount];
    private int _slotsUsed;
    private int _count;

    /// <summary>True once nothing can be read any more.</summary>
    public bool IsDisposed { get; private set; }

    /// <summary>The public type that errors about a disposed pack name.</summary>
    public required Type Owner { get; init; }

    /// <summary>In the order of their numbers, which is that of their needles.</summary>
    public IReadOnlyList<Volume> InOrder
    {
        get
        {
            lock (_gate)
                return [.. _slots.AsSpan(0, _slotsUsed).ToArray().OfType<Volume>().OrderBy(volume => volume.Name.Last)];
        }
    }

    /// <summary>
    /// The numbers that no volume has, although one behind them is there: each number belongs to a volume, from 1 on.
    /// </summary>
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

    /// <summary>How many volumes may still come in.</summary>
    public int FreeCount
    {
        get
        {
            lock (_gate)
                return IndexEntry.SlotCount - _count;
        }
    }

    /// <summary>The volume in a slot; null when it is free.</summary>
    public Volume? At(int slot) => Volatile.Read(ref _slots[slot]);

    /// <summary>Brings a volume in, in the first free slot or a given one.</summary>
    public void Add(Volume volume, int? wanted = null)
    {
        lock (_gate)
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

    /// <summary>For whoever is about to make a volume's file.</summary>
    /// <exception cref="QueueFullException">Fewer slots are free than that.</exception>
    public void RequireFree(int count)
    {
        if (FreeCount < count)
            throw Full();
    }

    /// <summary>For whoever is about to look.</summary>
    /// <exception cref="ObjectDisposedException">Nothing can be read any more.</exception>
    public void ThrowIfDisposed() => ObjectDisposedException.ThrowIf(IsDisposed, Owner);

    /// <summary>Takes a volume out; its file is closed when the last reader leaves it.</summary>
    public void Remove(Volume volume)
    {
        lock (_gate)
        {
            Volatile.Write(ref _slots[volume.Slot], null);
            _count--;
        }

        volume.Retire();
    }

    /// <summary>Retires all.</summary>
    public void Dispose()
    {
        IsDisposed = true;
        foreach (Volume volume in InOrder)
            Remove(volume);
    }

    private QueueFullException Full() => new(
        string.Create(CultureInfo.InvariantCulture,
            $"The pack has no room for another volume: path={packPath}, most={IndexEntry.SlotCount}. ")
        + "Compact it, or make a pack with a larger VolumeSize.");
}

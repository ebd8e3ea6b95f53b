using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// An open volume. Whoever reads from it holds a lease, so that the file is closed only when nobody is at it any more, whoever
/// retires it when.
/// </summary>
/// <param name="name">Which volume it is.</param>
/// <param name="file">Its file, which is closed at the end.</param>
/// <param name="packId">The pack.</param>
/// <param name="owner">The volume that the file belongs to: a lease on it is given back instead.</param>
internal sealed class Volume(VolumeName name, PlatformFile file, Guid packId, Volume? owner = null)
{
    private const int Retired = int.MinValue;

    private int _references;
    private long _tail;
    private long _liveLength;
    private long _liveCount;
    private long _tombstoneLength;

    public VolumeName Name { get; } = name;

    public PlatformFile File { get; } = file;

    /// <summary>Set when gets copy from a mapping; null when they read the file.</summary>
    public VolumeMapping? Mapping { get; set; }

    /// <summary>The reading around what is looked up.</summary>
    public ReadAround Around { get; } = new(file);

    /// <summary>What the checksums of its needles begin with.</summary>
    public uint Seed { get; } = NeedleLayout.VolumeSeed(packId, name.Last, name.Generation);

    /// <summary>Its place in the table of volumes; set when it comes in.</summary>
    public int Slot { get; set; } = -1;

    /// <summary>The header can be read.</summary>
    public bool HasHeader { get; init; } = true;

    /// <summary>From the header; 0 when nothing is known.</summary>
    public ulong CleanAsOf { get; init; }

    /// <summary>From the header: the sequence of the last needle before the volume; 0 when it is not known.</summary>
    public ulong SequenceBefore { get; init; }

    /// <summary>From the header: where the needles of the volume before it end; 0 for the end of its file.</summary>
    public long PreviousEnd { get; init; }

    /// <summary>
    /// Behind this position stands what a cut has torn, as the next volume's header says. Set before the volume is replayed.
    /// </summary>
    public long EndsAt { get; set; } = long.MaxValue;

    /// <summary>Where the needles end that count. Written by the holder of the writer's lock.</summary>
    public long Tail
    {
        get => Volatile.Read(ref _tail);
        set => Volatile.Write(ref _tail, value);
    }

    /// <summary>Up to here it is known to be on disk. Written by whoever leads a sync, under that lock.</summary>
    public long Synced { get; set; }

    /// <summary>The bytes of needles to which the index points.</summary>
    public long LiveLength => Volatile.Read(ref _liveLength);

    /// <summary>How many needles the index points to.</summary>
    public long LiveCount => Volatile.Read(ref _liveCount);

    /// <summary>The bytes of tombstones in it.</summary>
    public long TombstoneLength => Volatile.Read(ref _tombstoneLength);

    /// <summary>Reads for a get, of what lies before the tail. For holders of a lease.</summary>
    public int ReadAt(Span<byte> destination, long position) => Mapping?.TryRead(destination, position, Tail) == true
        ? destination.Length
        : File.ReadAt(destination, position);

    public void AddLive(long length, long count)
    {
        Interlocked.Add(ref _liveLength, length);
        Interlocked.Add(ref _liveCount, count);
    }

    /// <summary>Takes over what the next volume says of the end of this one.</summary>
    public void EndBefore(Volume next)
    {
        bool isSaid = next.PreviousEnd > 0 && Name.Generation == 0 && Name.Last + 1 == next.Name.First;
        EndsAt = isSaid ? next.PreviousEnd : long.MaxValue;
    }

    public void AddTombstone(long length) => Interlocked.Add(ref _tombstoneLength, length);

    /// <summary>Keeps the file open until <see cref="Release"/>; false when it is retired.</summary>
    public bool TryAcquire()
    {
        int references = Volatile.Read(ref _references);
        while (references >= 0)
        {
            int seen = Interlocked.CompareExchange(ref _references, references + 1, references);
            if (seen == references)
                return true;
            references = seen;
        }

        return false;
    }

    /// <summary>One more lease for somebody who holds one, which a retired volume grants too.</summary>
    public void Share() => Interlocked.Increment(ref _references);

    public void Release()
    {
        if (Interlocked.Decrement(ref _references) == Retired)
            Close();
    }

    /// <summary>Lets nobody in any more; the last one out closes the file. For one caller, once.</summary>
    public void Retire()
    {
        if (Interlocked.Add(ref _references, Retired) == Retired)
            Close();
    }

    private void Close()
    {
        Mapping?.Dispose();
        if (owner is null)
            File.Dispose();
        else
            owner.Release();
    }
}

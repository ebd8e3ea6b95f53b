using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// An open volume. Every user holds a reference, so the file is closed only after the last user has released it, whenever the
/// volume is retired.
/// </summary>
/// <param name="name">Which volume it is.</param>
/// <param name="file">The volume's file, which is closed at the end.</param>
/// <param name="packId">The pack.</param>
/// <param name="owner">
/// The volume that owns the file, if another one does: this one then releases a reference on it instead of closing the file.
/// </param>
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

    /// <summary>The mapping from which gets copy; null if they read the file.</summary>
    public VolumeMapping? Mapping { get; set; }

    /// <summary>Requests the surroundings of what is looked up.</summary>
    public ReadAround Around { get; } = new(file);

    /// <summary>The initial value of the checksums of this volume's needles.</summary>
    public uint Seed { get; } = NeedleLayout.VolumeSeed(packId, name.Last, name.Generation);

    /// <summary>The volume's slot in the table of volumes; set when it is added.</summary>
    public int Slot { get; set; } = -1;

    /// <summary>Whether the header can be read.</summary>
    public bool HasHeader { get; init; } = true;

    /// <summary>From the header; 0 if unknown.</summary>
    public ulong CleanAsOf { get; init; }

    /// <summary>From the header: the sequence of the last needle before the volume; 0 if unknown.</summary>
    public ulong SequenceBefore { get; init; }

    /// <summary>From the header: where the needles of the previous volume end; 0 for the end of its file.</summary>
    public long PreviousEnd { get; init; }

    /// <summary>From the header: where the needles of a compaction's copy end; 0 if unknown.</summary>
    public long CopyEnd { get; init; }

    /// <summary>
    /// What follows this position was torn by a crash, according to the next volume's header. Set before the volume is replayed.
    /// </summary>
    public long EndsAt { get; set; } = long.MaxValue;

    /// <summary>Where the needles end that count. Only the holder of the writer's lock writes it.</summary>
    public long Tail
    {
        get => Volatile.Read(ref _tail);
        set => Volatile.Write(ref _tail, value);
    }

    /// <summary>The bytes of all needles, dead or alive.</summary>
    public long NeedlesLength => Tail - VolumeHeader.Length;

    /// <summary>
    /// The volume is known to be on disk up to here. Only the leader of a sync writes it, under the lock of syncs.
    /// </summary>
    public long Synced { get; set; }

    /// <summary>The bytes of needles that the index points to.</summary>
    public long LiveLength => Volatile.Read(ref _liveLength);

    /// <summary>The number of needles that the index points to.</summary>
    public long LiveCount => Volatile.Read(ref _liveCount);

    /// <summary>The bytes of tombstones in the volume.</summary>
    public long TombstoneLength => Volatile.Read(ref _tombstoneLength);

    /// <summary>Reads bytes before the tail, for a get. The caller holds a reference.</summary>
    public int ReadAt(Span<byte> destination, long position) => Mapping?.TryRead(destination, position, Tail) == true
        ? destination.Length
        : File.ReadAt(destination, position);

    public void AddLive(long length, long count)
    {
        Interlocked.Add(ref _liveLength, length);
        Interlocked.Add(ref _liveCount, count);
    }

    /// <summary>Reads a volume's header. What the disk cannot give counts as damage of the header: no bytes.</summary>
    public static int ReadHeader(PlatformFile file, Span<byte> header)
    {
        try
        {
            return file.ReadAt(header, 0);
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.EIO)
        {
            return 0;
        }
    }

    /// <summary>Sets the end of this volume from the next volume's header.</summary>
    public void EndBefore(Volume next)
    {
        bool isSaid = next.PreviousEnd > 0 && Name.Generation == 0 && Name.Last + 1 == next.Name.First;
        EndsAt = isSaid ? next.PreviousEnd : long.MaxValue;
    }

    public void AddTombstone(long length) => Interlocked.Add(ref _tombstoneLength, length);

    /// <summary>
    /// Takes a reference, which keeps the file open until <see cref="Release"/>; false if the volume is retired.
    /// </summary>
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

    /// <summary>Takes one more reference, for a caller that already holds one. Works on a retired volume too.</summary>
    public void Share() => Interlocked.Increment(ref _references);

    /// <summary>Releases a reference; the last one of a retired volume closes the file.</summary>
    public void Release()
    {
        if (Interlocked.Decrement(ref _references) == Retired)
            Close();
    }

    /// <summary>Grants no more first references; the last <see cref="Release"/> closes the file. Called once.</summary>
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

using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// A pack in memory: its files, the index over them, and what was found damaged on the way. A writer changes it under its own
/// lock; a reader replaces it as a whole when a compaction has changed the files.
/// </summary>
internal sealed class PackCore : IDisposable
{
    private readonly List<PackDamage> _damages = [];

    public PackCore(HeldDirectory directory, PackMeta meta, PackAccess access)
    {
        Directory = directory;
        Meta = meta;
        Layout = new IndexEntry(meta.VolumeLength);
        Index = new PackIndex(Layout);
        Volumes = new VolumeTable(directory.Path, access.MapsVolumes ? meta.VolumeLength : 0) { Owner = access.Owner };
        Hidden = new HiddenNeedles(directory.Path, meta.PackId) { IsIgnored = access.AllowsStaleValues };
        Lookup = new PackLookup(Index, Volumes, Hidden, new KeyHash(meta.PackId));
    }

    public HeldDirectory Directory { get; }

    public PackMeta Meta { get; }

    public IndexEntry Layout { get; }

    public PackIndex Index { get; }

    public VolumeTable Volumes { get; }

    public PackLookup Lookup { get; }

    /// <summary>What damage hides.</summary>
    public HiddenNeedles Hidden { get; }

    /// <summary>The sequence of the newest needle that counts, or one above it that is not to be given again.</summary>
    public ulong Sequence { get; private set; }

    /// <summary>The sequence is that of the newest needle, and nothing is known to have been lost behind it.</summary>
    public bool IsSequenceExact { get; private set; } = true;

    public IReadOnlyList<PackDamage> Damages
    {
        get
        {
            lock (_damages)
                return [.. _damages];
        }
    }

    /// <summary>Itself.</summary>
    /// <exception cref="ObjectDisposedException">It is disposed.</exception>
    public PackCore Usable()
    {
        Volumes.ThrowIfDisposed();
        return this;
    }

    /// <summary>A needle of this sequence counts now; or a checkpoint says that it does.</summary>
    public void Reach(ulong sequence) => (Sequence, IsSequenceExact) = (sequence, true);

    /// <summary>Sequences up to this one may have been given to needles that are lost.</summary>
    public void LeapTo(ulong sequence)
    {
        if (sequence > Sequence)
            (Sequence, IsSequenceExact) = (sequence, false);
    }

    public void Report(PackDamage damage)
    {
        lock (_damages)
            _damages.Add(damage);
    }

    /// <summary>
    /// Reports a stretch whose needles cannot be read, once for all that may have stood there, and lets the keys that it may hide
    /// say so.
    /// </summary>
    public void Hide(HiddenStretch stretch)
    {
        bool isReported = Hidden.Stretches.Any(other => other.Place == stretch.Place);
#if MFQ_PLANTED
        if (!PlantedFaults.Has(PlantedFault.PackHiddenForgotten))
#endif
        Hidden.Add(stretch);
        if (!isReported)
            Report(stretch.ToDamage());
    }

    /// <summary>
    /// Where the index has a key now; for the one that may change it. A place that cannot be read, and whose entry says that it
    /// may be the key's, is taken for it, so that a put replaces a damaged object and a delete removes it: were the entry left
    /// beside a newer one, the old value would come back with the bytes.
    /// </summary>
    public bool TryFindPlace(ReadOnlySpan<byte> key, ulong hash, out NeedlePlace place)
    {
        place = default;
        var read = new NeedleRead(stackalloc byte[256]);
        try
        {
            if (Lookup.TryFind(key, hash, wholeNeedle: false, passDamage: true, ref read, out ulong entry))
                place = new NeedlePlace(entry, read.Volume, read.Needle.Length);
            else if (entry != 0)
                place = new NeedlePlace(entry, Volumes.At(Layout.Slot(entry)), 0);
            return place.Volume is not null;
        }
        finally
        {
            read.Dispose();
        }
    }

    /// <summary>
    /// The index learns of a needle that is newer than what it has of the key, which is at <paramref name="old"/> (default
    /// when the key is new).
    /// </summary>
    public void Apply(ulong hash, NeedlePlace old, Volume volume, long position, NeedleLayout needle)
    {
        old.Volume?.AddLive(-old.Length, -1);
        bool isKnown = old.Volume is not null;
        if (needle.Kind == NeedleKind.Tombstone)
        {
            volume.AddTombstone(needle.Length);
            Hidden.OnDeleted(hash, new NeedlePosition(volume.Name.Last, position));
            if (isKnown)
                Index.Remove(hash, old.Entry);
            return;
        }

        ulong entry = Layout.Pack(hash, volume.Slot, position, needle.Length);
        volume.AddLive(needle.Length, 1);
        Hidden.OnPut(hash);
        if (isKnown)
            Index.Replace(hash, old.Entry, entry);
        else
            Index.Add(hash, entry);
    }

    public void Dispose() => Volumes.Dispose();
}

/// <summary>How a pack is looked at.</summary>
internal sealed record PackAccess
{
    /// <summary>The public type that errors about a disposed pack name.</summary>
    public required Type Owner { get; init; }

    /// <summary>Whether gets copy from mappings of the volumes.</summary>
    public bool MapsVolumes { get; init; }

    /// <summary>Whether a key answers with what is known although damage may hide something newer.</summary>
    public bool AllowsStaleValues { get; init; }
}

/// <summary>Where a key's newest value lies.</summary>
/// <param name="Entry">The index's word.</param>
/// <param name="Volume">The volume; null in the default value, which means nowhere.</param>
/// <param name="Length">The needle's length; 0 when it cannot be read.</param>
internal readonly record struct NeedlePlace(ulong Entry, Volume? Volume, int Length)
{
    public bool IsReadable => Length > 0;
}

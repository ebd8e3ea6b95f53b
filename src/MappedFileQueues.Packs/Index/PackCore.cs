using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// A pack in memory: its files, the index over them, and the damage that was found. A writer changes it under its own lock. A
/// reader replaces it as a whole when a compaction has changed the files.
/// </summary>
internal sealed class PackCore : IDisposable
{
    private readonly List<PackDamage> _damages = [];
    private readonly HashSet<NeedlePosition> _hidden = [];

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

    /// <summary>The needles that damage hides.</summary>
    public HiddenNeedles Hidden { get; }

    /// <summary>The sequence of the newest needle that counts, or a higher one, up to which no number is used again.</summary>
    public ulong Sequence { get; private set; }

    /// <summary>Whether <see cref="Sequence"/> is that of the newest needle, and no later needle is known to be lost.</summary>
    public bool IsSequenceExact { get; private set; } = true;

    public IReadOnlyList<PackDamage> Damages
    {
        get
        {
            lock (_damages)
                return [.. _damages];
        }
    }

    /// <summary>Returns this pack.</summary>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackCore Usable()
    {
        Volumes.ThrowIfDisposed();
        return this;
    }

    /// <summary>A needle with this sequence counts now, or a checkpoint says so.</summary>
    public void Reach(ulong sequence) => (Sequence, IsSequenceExact) = (sequence, true);

    /// <summary>Needles that are lost may have had sequences up to this one.</summary>
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
    /// Reports a stretch whose needles cannot be read, once for all needles that it may have held. From now on a get of a key
    /// that the stretch may hide is an error.
    /// </summary>
    public void Hide(HiddenStretch stretch)
    {
        bool isReported = !_hidden.Add(stretch.Place);
        if (!PlantedFaults.Has(PlantedFault.PackHiddenForgotten))
            Hidden.Add(stretch);
        if (!isReported)
            Report(stretch.ToDamage());
    }

    /// <summary>
    /// Finds the place that the index has for a key, for a caller that may change the index. If a place cannot be read and its
    /// entry may be the key's, it counts as the key's place, so a put replaces a damaged object and a delete removes it. If its
    /// entry stayed beside a newer one, the old value would come back together with the bytes.
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
    /// Adds a needle to the index that is newer than what the index has of the key. That is at <paramref name="old"/> (default
    /// for a new key).
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
        if (isKnown)
            Index.Replace(hash, old.Entry, entry);
        else
            Index.Add(hash, entry);

        // After the index: a get that does not know any more that the key was deleted finds it, or sees the index changed.
        Hidden.OnPut(hash);
    }

    public void Dispose() => Volumes.Dispose();
}

/// <summary>How to access a pack.</summary>
internal sealed record PackAccess
{
    /// <summary>The public type that errors about a disposed pack name.</summary>
    public required Type Owner { get; init; }

    /// <summary>Whether gets copy from mappings of the volumes.</summary>
    public bool MapsVolumes { get; init; }

    /// <summary>Whether a get returns the known value although damage may hide a newer one.</summary>
    public bool AllowsStaleValues { get; init; }
}

/// <summary>The place of a key's newest value.</summary>
/// <param name="Entry">The key's entry in the index.</param>
/// <param name="Volume">The volume; null in the default value, which means no place.</param>
/// <param name="Length">The needle's length; 0 if it cannot be read.</param>
internal readonly record struct NeedlePlace(ulong Entry, Volume? Volume, int Length)
{
    public bool IsReadable => Length > 0;
}

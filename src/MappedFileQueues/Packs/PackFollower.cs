using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs;

/// <summary>
/// Keeps a reader's pack up to date: reads on in the last volume, then in the next, and loads anew when a compaction has
/// changed the files. For one thread at a time; gets go on meanwhile.
/// </summary>
internal sealed class PackFollower : IDisposable
{
    private readonly StoreDirectory _directory;
    private readonly PackMeta _meta;
    private readonly bool _mapsVolumes;
    private readonly bool _hasIdentities = !OperatingSystemServices.Current.IsPortable;
    private PackCore _core;
    private PlatformFile? _checkpoint;
    private Volume? _last;
    private VolumeName _next;

    public PackFollower(StoreDirectory directory, PackMeta meta, bool mapsVolumes)
    {
        (_directory, _meta, _mapsVolumes) = (directory, meta, mapsVolumes);
        _core = Load();
    }

    /// <summary>The pack as of the last refresh.</summary>
    public PackCore Core => Volatile.Read(ref _core);

    public void Refresh()
    {
        if (IsCompacted() || _last?.File.Length < _last?.Tail)
        {
            PackCore old = _core;
            Volatile.Write(ref _core, Load());
            old.Dispose();
        }

        while (true)
        {
            // The next volume is looked for first: when it is there, the last one has all that it will ever have.
            bool hasNext = _directory.Identify(_next.Path) is not null;
            if (_last is { } last && last.File.Length > last.Tail)
                new PackReplay(_core).Replay(last, last.Tail, isLast: !hasNext, proven: last.Tail);
            if (!hasNext || !TryEnterNext())
                return;
        }
    }

    public void Dispose()
    {
        _checkpoint?.Dispose();
        _core.Dispose();
    }

    /// <summary>Loads the pack. When that fails nothing has changed, so that the next refresh tries again.</summary>
    private PackCore Load()
    {
        // It is opened before it is loaded: a later one is another file.
        PlatformFile? checkpoint = OpenCheckpoint();
        try
        {
            LoadedPack loaded = new PackLoader(_directory, _meta, _mapsVolumes).Load(useCheckpoint: true, writable: false);
            SetLast(loaded.Core.Volumes.InOrder.LastOrDefault(), loaded.LastNumber);
            Hold(checkpoint);
            return loaded.Core;
        }
        catch
        {
            checkpoint?.Dispose();
            throw;
        }
    }

    private void SetLast(Volume? last, uint lastNumber)
    {
        _last = last;
        _next = new VolumeName(lastNumber + 1, lastNumber + 1, 0);
    }

    private bool TryEnterNext()
    {
        // Without a slot it is an empty volume too many; or a compaction has made room for it, and the next refresh loads anew.
        PlatformFile? file = _core.Volumes.FreeCount == 0 ? null : _directory.Open(_next.Path, FileOpening.Read);
        if (file is null)
            return false;
        var next = new Volume(_next, file, _meta.PackId) { Tail = VolumeHeader.Length };
        _core.Volumes.Add(next);
        SetLast(next, next.Name.Last);
        return true;
    }

    /// <summary>
    /// Whether the set of volumes has changed otherwise than by a new one at its end. Each compaction ends with a new
    /// checkpoint, which is a new file; where files have no identity the names are looked at each time.
    /// </summary>
    private bool IsCompacted()
    {
        if (_hasIdentities && _directory.Identify(PackNames.Checkpoint) == _checkpoint?.Identity)
            return false;
        PlatformFile? checkpoint = OpenCheckpoint();
        try
        {
            if (!IsSetChanged())
            {
                Hold(checkpoint);
                checkpoint = null;
                return false;
            }

            return true;
        }
        finally
        {
            checkpoint?.Dispose();
        }
    }

    private bool IsSetChanged()
    {
        HashSet<string> files = [.. _directory.List(PackNames.Volumes)];
        IReadOnlyList<Volume> known = _core.Volumes.InOrder;
        foreach (Volume volume in known)
        {
            if (!files.Remove(volume.Name.FileName))
                return true;
        }

        return files.Any(file => VolumeName.TryParse(file, out VolumeName name) && (name.Generation > 0 || IsRestored(name)));

        bool IsRestored(VolumeName name) => name.Last < _next.First && !known.Any(volume => volume.Name.Overlaps(name));
    }

    private PlatformFile? OpenCheckpoint() => _directory.Open(PackNames.Checkpoint, FileOpening.Read);

    /// <summary>
    /// The file stays open: its inode would be used again for a later checkpoint, which would then look like the same.
    /// </summary>
    private void Hold(PlatformFile? checkpoint)
    {
        _checkpoint?.Dispose();
        _checkpoint = checkpoint;
    }
}

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
    private readonly bool _hasIdentities = !OperatingSystemServices.Current.IsPortable;
    private PackCore _core;
    private PlatformFile? _checkpoint;
    private Volume? _last;
    private string _nextPath = "";

    public PackFollower(StoreDirectory directory, PackMeta meta)
    {
        (_directory, _meta) = (directory, meta);
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
            bool hasNext = _directory.Identify(_nextPath) is not null;
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

    private PackCore Load()
    {
        HoldCheckpoint();
        PackCore core = new PackLoader(_directory, _meta).Load(useCheckpoint: true, writable: false).Core;
        SetLast(core.Volumes.InOrder.LastOrDefault());
        return core;
    }

    private void SetLast(Volume? last)
    {
        _last = last;
        uint number = (last?.Name.Last ?? 0) + 1;
        _nextPath = new VolumeName(number, number, 0).Path;
    }

    private bool TryEnterNext()
    {
        PlatformFile? file = _directory.Open(_nextPath, FileOpening.Read);
        if (file is null)
            return false;
        uint number = (_last?.Name.Last ?? 0) + 1;
        var next = new Volume(new VolumeName(number, number, 0), file, _meta.PackId) { Tail = VolumeHeader.Length };
        _core.Volumes.Add(next);
        SetLast(next);
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
        HoldCheckpoint();
        HashSet<string> files = [.. _directory.List(PackNames.Volumes)];
        IReadOnlyList<Volume> known = _core.Volumes.InOrder;
        foreach (Volume volume in known)
        {
            if (!files.Remove(volume.Name.FileName))
                return true;
        }

        return files.Any(static file => VolumeName.TryParse(file, out VolumeName name) && name.Generation > 0);
    }

    /// <summary>
    /// The file stays open: its inode would be used again for a later checkpoint, which would then look like the same.
    /// </summary>
    private void HoldCheckpoint()
    {
        _checkpoint?.Dispose();
        _checkpoint = _directory.Open(PackNames.Checkpoint, FileOpening.Read);
    }
}

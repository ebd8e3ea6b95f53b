using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Reading;

/// <summary>
/// Verifies every byte of the volumes and builds a second index from them, which has to equal the first one. Reads through
/// volumes of its own, so nothing in the pack's counts changes.
/// </summary>
internal sealed class PackVerifier : IDisposable
{
    private readonly PackCore _core;
    private readonly PackCore _scanned;
    private readonly List<PackDamage> _damages = [];
    private readonly bool _besideWriter;
    private readonly Volume? _active;
    private long _length;

    /// <param name="core">The pack.</param>
    /// <param name="active">The volume that takes puts, if this is the writer: nothing after its tail counts.</param>
    /// <param name="besideWriter">
    /// Whether a writer in another process may have replaced a volume and removed its file. Then this volume is read through the
    /// file that the pack has open.
    /// </param>
    public PackVerifier(PackCore core, Volume? active, bool besideWriter)
    {
        (_core, _active, _besideWriter) = (core, active, besideWriter);
        _scanned = new PackCore(core.Directory, core.Meta, new PackAccess { Owner = core.Volumes.Owner });
    }

    /// <summary>Scans what has not been scanned yet, up to the current end of the pack's needles.</summary>
    public void Scan()
    {
        foreach (Volume volume in _core.Volumes.InOrder)
        {
            Volume? own = _scanned.Volumes.At(volume.Slot) ?? Open(volume);
            if (own is not null)
                Scan(own, volume.Tail);
        }
    }

    /// <summary>Compares the two indexes. The caller keeps both from changing.</summary>
    public PackVerification Compare()
    {
        foreach (Volume volume in _core.Volumes.InOrder.Where(volume => volume != _active))
            CheckEnd(volume);
        IReadOnlyList<VolumeName> gaps = _core.Volumes.Gaps;
        foreach (VolumeName gap in gaps)
            _damages.Add(PackDamage.At(gap, 0, 0, "No volume has these numbers."));

        // A missing volume after the last one leaves no gap.
        _damages.AddRange(_core.Hidden.Stretches
            .Where(stretch => stretch.Position == HiddenStretch.WholeVolume && !gaps.Any(stretch.Name.Overlaps))
            .Select(stretch => stretch.ToDamage()));

        // A lost end leaves nothing to scan.
        _damages.AddRange(_core.Hidden.Stretches
            .Where(stretch => stretch.Length == 0 && stretch.Position != HiddenStretch.WholeVolume
                && !_damages.Exists(damage => damage.File == stretch.Name.Path && damage.Length == 0))
            .Select(stretch => stretch.ToDamage()).ToList());
        int damageCount = _damages.Count;
        for (int number = 0; number < PackIndex.ShardCount; number++)
        {
            ulong[] entries = _core.Index.CopyShard(number);
            ulong[] scannedEntries = _scanned.Index.CopyShard(number);
            if (entries.Length + scannedEntries.Length == 0)
                continue;
            HashSet<ulong> scanned = [.. scannedEntries];
            foreach (ulong entry in entries)
            {
                if (!scanned.Remove(entry) && !IsDamaged(entry))
                    Report(entry, "The index points here, but the key's newest value is elsewhere or missing.");
            }

            // With damage, an older value of a key may appear again.
            foreach (ulong entry in damageCount == 0 ? scanned : [])
                Report(entry, "The newest value of a key is here, but the index does not have it.");
        }

        return new PackVerification { Count = _core.Index.Count, Length = _length, Damages = [.. _damages] };
    }

    public void Dispose() => _scanned.Dispose();

    private Volume? Open(Volume volume)
    {
        PlatformFile? file = _core.Directory.Open(volume.Name.Path, FileOpening.Read);
        Volume? owner = file is null && _besideWriter && volume.TryAcquire() ? volume : null;
        file ??= owner?.File;
        if (file is null)
        {
            _damages.Add(PackDamage.At(volume.Name, 0, 0, "The volume is missing."));
            return null;
        }

        Span<byte> bytes = stackalloc byte[VolumeHeader.Length];
        int read = file.ReadAt(bytes, 0);
        if (VolumeHeader.Parse(bytes[..read], _core.Meta.PackId, volume.Name) is null)
            _damages.Add(PackDamage.At(volume.Name, 0, VolumeHeader.Length, "The volume's header is damaged."));
        var own = new Volume(volume.Name, file, _core.Meta.PackId, owner) { Tail = VolumeHeader.Length };
        _scanned.Volumes.Add(own, volume.Slot);
        _length += VolumeHeader.Length;
        return own;
    }

    private void Scan(Volume own, long end)
    {
        long from = own.Tail;
        using var scanner = new VolumeScanner(own, from, Math.Min(end, own.File.Length));
        while (!scanner.IsAtEnd)
        {
            long position = scanner.Position;
            if (scanner.TryNext(_scanned.Sequence, wholeNeedle: true))
            {
                own.Tail = scanner.Position;
                _scanned.Reach(scanner.Needle.Sequence);
                ReadOnlySpan<byte> key = scanner.Key;
                ulong hash = _scanned.Lookup.HashOf(key);
                _scanned.TryFindPlace(key, hash, out NeedlePlace old);
                _scanned.Apply(hash, old, own, position, scanner.Needle);
                continue;
            }

            scanner.TryResync(_scanned.Sequence, wholeNeedle: true);
            _damages.Add(PackDamage.At(own.Name, position, scanner.Position - position, "There is no valid needle here."));
        }

        if (own.File.Length < end)
            _damages.Add(PackDamage.At(own.Name, own.File.Length, 0, $"The volume is shorter than it was: expected={end}."));

        own.Tail = end;
        _length += end - from;
    }

    /// <summary>
    /// Verifies what follows the last needle that counts, up to the end of the file. In the last volume that may be a needle that
    /// is being written or was torn, but no intact needle follows such a needle.
    /// </summary>
    private void CheckEnd(Volume volume)
    {
        if (_scanned.Volumes.At(volume.Slot) is not { } own)
            return;
        long end = Math.Min(own.File.Length, volume.EndsAt);
        using var scanner = new VolumeScanner(own, own.Tail, end);
        bool isOver = scanner.IsAtEnd || scanner.TryNext(sequenceAbove: 0, wholeNeedle: true);
        if (isOver)
            return;
        bool isLast = volume == _core.Volumes.InOrder[^1];
        bool followsOne = scanner.TryResync(sequenceAbove: 0, wholeNeedle: true);

        // Beside a writer the needle may be complete by now.
        using var again = new VolumeScanner(own, own.Tail, end);
        if ((followsOne || !isLast) && !again.TryNext(sequenceAbove: 0, wholeNeedle: true))
        {
            _damages.Add(PackDamage.At(own.Name, own.Tail, scanner.Position - own.Tail,
                "There is no valid needle here, and what follows does not count."));
        }
    }

    private bool IsDamaged(ulong entry)
    {
        string? file = _core.Volumes.At(_core.Layout.Slot(entry))?.Name.Path;
        long position = _core.Layout.Position(entry);
        return _damages.Exists(damage => damage.File == file && position >= damage.Position
            && (damage.Length == 0 || position < damage.Position + damage.Length));
    }

    private void Report(ulong entry, string reason)
    {
        string file = _core.Volumes.At(_core.Layout.Slot(entry))?.Name.Path ?? PackNames.Volumes;
        _damages.Add(new PackDamage { File = file, Position = _core.Layout.Position(entry), Reason = reason });
    }
}

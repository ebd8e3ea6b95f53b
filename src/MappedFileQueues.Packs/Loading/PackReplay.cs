using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Loading;

/// <summary>
/// Scans volumes in order and changes the index needle by needle. This one walk rebuilds an index, recovers after a crash, and
/// lets a reader follow the writer. The table of docs/PACKS.md section 5 says what it does at a position without a needle.
/// </summary>
/// <param name="core">The pack.</param>
/// <param name="hasLock">Whether the caller holds the writer's lock, so there is no other writer.</param>
internal sealed class PackReplay(PackCore core, bool hasLock = false)
{
    /// <summary>
    /// Applies the needles of a volume from <paramref name="from"/> on and sets its tail. The last volume may end in a torn
    /// write, but not below <paramref name="proven"/>: everything before that was on disk.
    /// </summary>
    public void Replay(Volume volume, long from, bool isLast, long proven)
    {
        long end = Math.Min(volume.File.Length, volume.EndsAt);

        // A compaction's copy is complete before it gets its name.
        bool mayEnd = isLast && volume.Name.Generation == 0;
        VolumeEnd? judge = mayEnd ? new VolumeEnd(core, volume, end, proven, hasLock) : null;
        using var scanner = new VolumeScanner(volume, from, end);
        while (true)
        {
            while (scanner.TryNext(core.Sequence, wholeNeedle: mayEnd))
                Apply(volume, scanner);
            bool isOver = scanner.IsAtEnd || judge?.IsDamage(scanner.Position) == false;
            if (isOver)
                return;
            Pass(volume, scanner, isLast);
        }
    }

    private void Apply(Volume volume, VolumeScanner scanner)
    {
        long position = scanner.NeedlePosition;
        bool fits = scanner.Needle.Kind == NeedleKind.Tombstone || position < core.Meta.VolumeLength;
        if (!fits)
        {
            // No put wrote a value there, and no entry can say where it is.
            core.Hide(new HiddenStretch(volume.Name, position, scanner.Needle.Length, Trace: null));
            volume.Tail = scanner.Position;
            core.Reach(scanner.Needle.Sequence);
            return;
        }

        ReadOnlySpan<byte> key = scanner.Key;
        ulong hash = core.Lookup.HashOf(key);
        core.TryFindPlace(key, hash, out NeedlePlace old);

        // The tail is set before the index, because a get reads nothing beyond the tail.
        volume.Tail = scanner.Position;
        core.Reach(scanner.Needle.Sequence);
        core.Apply(hash, old, volume, position, scanner.Needle);
    }

    /// <summary>Reports the damage and continues after it.</summary>
    private void Pass(Volume volume, VolumeScanner scanner, bool isLast)
    {
        long damaged = scanner.Position;

        // Header and key are intact: the object is known, and a get reports that it is damaged.
        if (scanner.TryNext(core.Sequence, wholeNeedle: false))
        {
            core.Report(PackDamage.At(volume.Name, damaged, scanner.Position - damaged, "The data of an object is damaged."));
            Apply(volume, scanner);
            return;
        }

        bool isFound = scanner.TryResync(core.Sequence, wholeNeedle: false);
        long length = scanner.Position - damaged;
        IReadOnlyList<NeedleTrace?> traces = LostNeedle.TracesOf(volume, damaged, scanner.Position);
        foreach (NeedleTrace? trace in traces.Count > 0 ? traces : [null])
            core.Hide(new HiddenStretch(volume.Name, damaged, length, trace));
        volume.Tail = scanner.Position;

        // The lost needles had sequences too, which are not used again: otherwise the needles could not be told apart if the
        // bytes came back.
        if (!isFound && isLast && hasLock)
            core.LeapTo(core.Sequence + (ulong)(length / NeedleLayout.LengthMin) + 1);
    }
}
